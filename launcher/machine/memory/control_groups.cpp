#include "launcher/machine/memory/control_groups.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace xpurun::launcher {

using model::HostUse;
using model::MachineFact;

namespace {

constexpr size_t kMostGroups = 16;
constexpr int64_t kNoLimit = int64_t{1} << 60;

// How a version of the control groups says whose memory it is.
struct GroupFiles {
  std::string_view mount;
  std::string_view events;
  std::string_view limit;
  std::string_view used;
  std::string_view reached;    // in the file of events; empty: a file of its own
  std::string_view processes;  // lines of memory.stat
  std::string_view files;      // shared memory included
  std::string_view shared;
};
constexpr GroupFiles kUnified = {"fs/cgroup", "memory.events", "memory.max", "memory.current",
                                 "max",       "anon",          "file",       "shmem"};
constexpr GroupFiles kFirst = {"fs/cgroup/memory",
                               "memory.oom_control",
                               "memory.limit_in_bytes",
                               "memory.usage_in_bytes",
                               "",
                               "total_rss",
                               "total_cache",
                               "total_shmem"};
constexpr std::string_view kHybridMount = "fs/cgroup/unified";

const GroupFiles& files_of(const ControlGroup& group) {
  return group.unified ? kUnified : kFirst;
}

// "oom_kill 3" in the files of a control group.
std::optional<int64_t> line_number(std::string_view text, std::string_view name) {
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ') {
      const auto number = base::parse_int(base::trim(line.substr(name.size())));
      return number && *number >= 0 ? number : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> oom_kills(const HostFiles& host, const ControlGroup& group) {
  return line_number(host.sys_text(fmt::format("{}/{}", group.directory, files_of(group).events)),
                     "oom_kill");
}

// How often the limit was reached.
int64_t times_at_limit(const HostFiles& host, const ControlGroup& group) {
  const GroupFiles& files = files_of(group);
  return files.reached.empty()
             ? base::parse_int(host.sys_text(group.directory + "/memory.failcnt")).value_or(0)
             : line_number(host.sys_text(fmt::format("{}/{}", group.directory, files.events)), files.reached)
                   .value_or(0);
}

// No limit is "max", or (version 1) the largest number of pages.
int64_t limit_of(const HostFiles& host, const ControlGroup& group) {
  const std::string text = host.sys_text(fmt::format("{}/{}", group.directory, files_of(group).limit));
  return std::max<int64_t>(base::parse_int(text).value_or(0), 0);
}

int64_t used_of(const HostFiles& host, const ControlGroup& group) {
  const std::string text = host.sys_text(fmt::format("{}/{}", group.directory, files_of(group).used));
  return base::parse_int(text).value_or(0);
}

std::string below(std::string_view mount, std::string_view path) {
  return std::string(mount) + (path == "/" ? std::string() : std::string(path));
}

bool is_root(const ControlGroup& group) {
  return group.path == "/";
}

// The group of `pid` that counts its own deaths.
std::optional<ControlGroup> counting_group(const HostFiles& host, base::Pid pid) {
  const std::string cgroup = pid > 0 ? host.proc().text(pid, "cgroup") : std::string();
  std::vector<ControlGroup> candidates;
  if (const std::string path = control_group_path(cgroup, ""); !path.empty()) {
    for (const std::string_view mount : {kUnified.mount, kHybridMount}) {
      candidates.push_back({.path = path, .directory = below(mount, path), .unified = true});
    }
  }
  if (const std::string path = control_group_path(cgroup, "memory"); !path.empty()) {
    candidates.push_back({.path = path, .directory = below(kFirst.mount, path)});
    // A container may see its own part of the groups only, under the name that the host has for it.
    candidates.push_back({.path = "/", .directory = std::string(kFirst.mount)});
  }
  // The root of a container's groups has memory.events, that of a host has not.
  const auto it = std::find_if(candidates.begin(), candidates.end(),
                               [&](const ControlGroup& group) { return oom_kills(host, group).has_value(); });
  if (it == candidates.end()) {
    return std::nullopt;
  }
  it->limit_bytes = limit_of(host, *it);
  return std::move(*it);
}

}  // namespace

std::string control_group_path(std::string_view cgroup, std::string_view controllers) {
  for (const std::string_view line : base::split(cgroup, '\n')) {
    const auto parts = base::split(line, ':');
    if (parts.size() >= 3 && parts[1] == controllers && parts[2].starts_with('/')) {
      const std::string_view path = line.substr(parts[0].size() + parts[1].size() + 2);
      return path.find("/..") == std::string_view::npos ? std::string(path) : std::string();
    }
  }
  return {};
}

std::optional<ControlGroup> memory_control_group(const HostFiles& host, base::Pid pid) {
  auto group = counting_group(host, pid);
  // The root of the first version is the whole host, if it is not that of a container.
  return group && is_root(*group) && !group->unified &&
                 (group->limit_bytes <= 0 || group->limit_bytes >= kNoLimit)
             ? std::nullopt
             : std::move(group);
}

std::optional<ControlGroup> limiting_group(const HostFiles& host, base::Pid pid, int64_t memory) {
  const auto own = memory_control_group(host, pid);
  std::optional<ControlGroup> best;
  for (std::optional<ControlGroup> group = own; group;) {
    const int64_t least = best ? best->limit_bytes : memory;
    if (group->limit_bytes > 0 && (group->limit_bytes < least || least == 0)) {
      best = group;
    }
    if (group->path.size() < 2) {
      break;
    }
    const size_t slash = group->path.rfind('/');
    const size_t cut = group->path.size() - slash;
    group->path.resize(std::max<size_t>(slash, 1));
    group->directory.resize(group->directory.size() - cut);
    group->limit_bytes = limit_of(host, *group);
  }
  return best;
}

std::optional<GroupMemory> group_memory(const HostFiles& host, const ControlGroup& group) {
  const GroupFiles& files = files_of(group);
  const std::string stat = host.sys_text(group.directory + "/memory.stat");
  const auto processes = line_number(stat, files.processes);
  const auto cached = line_number(stat, files.files);
  const auto shared = line_number(stat, files.shared);
  if (!processes || !cached || !shared) {
    return std::nullopt;
  }
  return GroupMemory{
      .processes = *processes, .cache = std::max<int64_t>(*cached - *shared, 0), .shared = *shared};
}

MemoryOfHost host_memory(const HostFiles& host) {
  const std::string text = host.proc_text("meminfo");
  // "MemTotal:       24656756 kB"
  const auto bytes = [&](std::string_view name) -> int64_t {
    for (const std::string_view line : base::split(text, '\n')) {
      if (line.starts_with(name)) {
        const std::string_view number = base::trim(line.substr(name.size()));
        return base::parse_int(number.substr(0, number.find(' '))).value_or(0) * 1024;
      }
    }
    return 0;
  };
  return {.total = bytes("MemTotal:"), .available = bytes("MemAvailable:"), .shared = bytes("Shmem:")};
}

model::MemoryGroup read_memory_group(const HostFiles& host, base::Pid pid) {
  const auto group = counting_group(host, pid);
  if (!group) {
    return {};
  }
  return {.path = host.sys_path(group->directory),
          .oom_kills = oom_kills(host, *group).value_or(0),
          .limit_bytes = group->limit_bytes < kNoLimit ? group->limit_bytes : 0,
          .used_bytes = used_of(host, *group)};
}

std::optional<MemoryRoom> read_memory_room(const HostFiles& host, base::Pid pid) {
  std::optional<MemoryRoom> room;
  const MemoryOfHost memory = host_memory(host);
  if (memory.total > 0) {
    room =
        MemoryRoom{.group = {}, .limit_bytes = memory.total, .used_bytes = memory.total - memory.available};
  }
  const auto group = limiting_group(host, pid, memory.total);
  if (!group || group->limit_bytes >= kNoLimit) {
    return room;
  }
  const MemoryRoom own{.group = host.sys_path(group->directory),
                       .limit_bytes = group->limit_bytes,
                       .used_bytes = used_of(host, *group)};
  return !room || own.left_bytes() < room->left_bytes() ? std::optional(own) : room;
}

void read_group_memory(const HostFiles& host, const std::vector<WatchedRank>& ranks,
                       model::MachineReading& out) {
  std::set<std::string> seen;
  for (const WatchedRank& rank : ranks) {
    const auto group = memory_control_group(host, rank.pid);
    if (!group || seen.size() >= kMostGroups || !seen.insert(group->directory).second) {
      continue;
    }
    const std::string object = base::sanitize(group->path);
    out.values.push_back({.fact = MachineFact::oom_kills,
                          .object = object,
                          .value = static_cast<double>(oom_kills(host, *group).value_or(0)),
                          .detail = {}});
    if (group->limit_bytes > 0) {
      out.values.push_back({.fact = MachineFact::memory_limit,
                            .object = object,
                            .value = static_cast<double>(times_at_limit(host, *group)),
                            .detail = base::human_size(static_cast<uint64_t>(group->limit_bytes))});
    }
    if (const auto memory = group_memory(host, *group)) {
      const std::pair<HostUse, int64_t> uses[] = {{HostUse::group_processes, memory->processes},
                                                  {HostUse::group_cache, memory->cache},
                                                  {HostUse::group_shared, memory->shared}};
      for (const auto& [use, bytes] : uses) {
        out.use.push_back({.use = use, .object = object, .value = static_cast<double>(bytes)});
      }
    }
  }
}

}  // namespace xpurun::launcher
