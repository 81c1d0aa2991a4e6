#include "launcher/evidence/memory_group.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <optional>
#include <string_view>

namespace xpurun::launcher {

namespace {

// "oom_kill 3" among the lines of a file; empty if there is no such line.
std::optional<int64_t> counter(const std::string& text, std::string_view name) {
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      return base::parse_int(base::trim(line.substr(name.size())));
    }
  }
  return std::nullopt;
}

int64_t number_in(const std::string& path) {
  const auto text = base::read_file(path);
  return text ? base::parse_int(base::trim(*text)).value_or(0) : 0;
}

// No limit is "max", or (version 1) the largest number of pages.
int64_t limit_in(const std::string& path) {
  constexpr int64_t kNone = int64_t{1} << 60;
  const int64_t bytes = number_in(path);
  return bytes < kNone ? bytes : 0;
}

}  // namespace

model::MemoryGroup read_memory_group(const base::ProcFs& proc, base::Pid pid, const std::string& root) {
  const std::string groups = proc.text(pid, "cgroup");
  for (const std::string_view line : base::split(groups, '\n')) {
    const auto parts = base::split(line, ':');
    if (parts.size() < 3) {
      continue;
    }
    const bool unified = parts[0] == "0" && parts[1].empty();
    if (!unified && parts[1] != "memory") {
      continue;
    }
    std::string path = root + (unified ? "" : "/memory") + std::string(parts[2]);
    while (path.size() > 1 && path.ends_with('/')) {
      path.pop_back();
    }
    const auto events = base::read_file(path + (unified ? "/memory.events" : "/memory.oom_control"));
    const auto kills = events ? counter(*events, "oom_kill") : std::nullopt;
    if (kills) {
      return {.path = path,
              .oom_kills = *kills,
              .limit_bytes = limit_in(path + (unified ? "/memory.max" : "/memory.limit_in_bytes")),
              .used_bytes = number_in(path + (unified ? "/memory.current" : "/memory.usage_in_bytes"))};
    }
  }
  return {};
}

std::optional<MemoryRoom> read_memory_room(const base::ProcFs& proc, base::Pid pid, const std::string& root) {
  std::optional<MemoryRoom> room;
  // "MemTotal:       24656756 kB"
  const auto text = base::read_file(proc.root() + "/meminfo");
  const auto kib = [&](std::string_view name) -> int64_t {
    for (const std::string_view line : base::split(text ? *text : std::string_view(), '\n')) {
      if (line.starts_with(name)) {
        const std::string_view number = base::trim(line.substr(name.size()));
        return base::parse_int(number.substr(0, number.find(' '))).value_or(0);
      }
    }
    return 0;
  };
  if (const int64_t total = kib("MemTotal:"); total > 0) {
    room = MemoryRoom{
        .group = {}, .limit_bytes = total * 1024, .used_bytes = (total - kib("MemAvailable:")) * 1024};
  }
  const model::MemoryGroup group = read_memory_group(proc, pid, root);
  const MemoryRoom own{.group = group.path, .limit_bytes = group.limit_bytes, .used_bytes = group.used_bytes};
  return group.limit_bytes > 0 && (!room || own.left_bytes() < room->left_bytes()) ? std::optional(own)
                                                                                   : room;
}

}  // namespace xpurun::launcher
