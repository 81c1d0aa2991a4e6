#include "common/base/os/procfs.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <dirent.h>
#include <memory>
#include <unistd.h>

namespace xpurun::base {

namespace {

constexpr size_t kLimit = size_t{4} << 20;

struct DirCloser {
  void operator()(DIR* d) const { ::closedir(d); }
};

ProcStatus parse_status(std::string_view text) {
  ProcStatus out;
  for (std::string_view line : split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) {
      continue;
    }
    const std::string_view key = line.substr(0, colon);
    const std::string_view value = trim(line.substr(colon + 1));
    const auto number = [&] { return parse_int(split(value, '\t').front()).value_or(0); };
    if (key == "NSpid") {
      for (std::string_view pid : split(value, '\t')) {
        out.ns_pid.push_back(static_cast<Pid>(parse_int(pid).value_or(0)));
      }
    } else if (key == "TracerPid") {
      out.tracer_pid = static_cast<Pid>(number());
    } else if (key == "Uid") {
      out.uid = static_cast<uint32_t>(number());
    } else if (key == "voluntary_ctxt_switches") {
      out.voluntary_switches = static_cast<uint64_t>(number());
    } else if (key == "nonvoluntary_ctxt_switches") {
      out.involuntary_switches = static_cast<uint64_t>(number());
    } else if (key == "SigPnd") {
      out.thread_pending = parse_hex(value).value_or(0);
    } else if (key == "ShdPnd") {
      out.process_pending = parse_hex(value).value_or(0);
    } else if (key == "SigIgn") {
      out.ignored = parse_hex(value).value_or(0);
    }
  }
  return out;
}

}  // namespace

Result<ProcStat> parse_proc_stat(std::string_view text) {
  // comm is in parentheses and may contain ")" itself: the last one ends it.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      close + 2 > text.size()) {
    return fail("malformed stat line");
  }
  ProcStat out;
  out.pid = static_cast<Pid>(parse_int(trim(text.substr(0, open))).value_or(0));
  out.comm = std::string(text.substr(open + 1, close - open - 1));
  const auto fields = split(trim(text.substr(close + 2)), ' ');
  if (fields.size() < 22) {
    return fail("short stat line");
  }
  // fields[0] is field 3 of proc(5).
  const auto field = [&](size_t number) { return parse_int(fields[number - 3]).value_or(0); };
  out.state = fields[0].empty() ? '?' : fields[0][0];
  out.ppid = static_cast<Pid>(field(4));
  out.pgrp = static_cast<Pid>(field(5));
  out.session = static_cast<Pid>(field(6));
  out.minor_faults = static_cast<uint64_t>(field(10));
  out.major_faults = static_cast<uint64_t>(field(12));
  out.utime_ticks = static_cast<uint64_t>(field(14));
  out.stime_ticks = static_cast<uint64_t>(field(15));
  out.children_ticks = static_cast<uint64_t>(field(16)) + static_cast<uint64_t>(field(17));
  out.num_threads = field(20);
  out.start_ticks = static_cast<uint64_t>(field(22));
  out.rss_pages = fields.size() > 21 ? static_cast<uint64_t>(field(24)) : 0;
  out.processor = fields.size() >= 37 ? static_cast<int>(field(39)) : -1;
  // The kernel shows field 52 as 0 to a reader without permission to ptrace.
  out.exit_code = fields.size() >= 50 ? static_cast<int>(field(52)) : 0;
  return out;
}

std::string ProcFs::path(Pid pid, std::string_view name) const {
  return fmt::format("{}/{}/{}", root_, pid, name);
}

double ticks_to_s(uint64_t ticks) {
  static const auto per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(ticks) / per_second;
}

std::vector<Pid> ProcFs::numbers_in(const std::string& path) {
  std::vector<Pid> out;
  std::unique_ptr<DIR, DirCloser> dir(::opendir(path.c_str()));
  if (!dir) {
    return out;
  }
  while (const dirent* entry = ::readdir(dir.get())) {
    if (auto n = parse_int(entry->d_name)) {
      out.push_back(static_cast<Pid>(*n));
    }
  }
  return out;
}

Result<ProcStat> ProcFs::stat(Pid pid) const {
  XPURUN_TRY_ASSIGN(const std::string text, read_file(path(pid, "stat"), kLimit));
  return parse_proc_stat(text);
}

Result<ProcStat> ProcFs::thread_stat(Pid pid, Tid tid) const {
  XPURUN_TRY_ASSIGN(const std::string text, read_file(path(pid, fmt::format("task/{}/stat", tid)), kLimit));
  return parse_proc_stat(text);
}

Result<ProcStatus> ProcFs::status(Pid pid) const {
  XPURUN_TRY_ASSIGN(const std::string text, read_file(path(pid, "status"), kLimit));
  return parse_status(text);
}

Result<ProcStatus> ProcFs::thread_status(Pid pid, Tid tid) const {
  XPURUN_TRY_ASSIGN(const std::string text, read_file(path(pid, fmt::format("task/{}/status", tid)), kLimit));
  return parse_status(text);
}

std::optional<ProcMemory> ProcFs::memory(Pid pid) const {
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto text = read_file(path(pid, "statm"), kLimit);
  const auto fields = text ? split(trim(*text), ' ') : std::vector<std::string_view>();
  if (fields.size() < 3) {
    return std::nullopt;
  }
  const auto pages = [&](size_t i) {
    return static_cast<uint64_t>(std::max<int64_t>(parse_int(fields[i]).value_or(0), 0));
  };
  const uint64_t resident = pages(1);
  return ProcMemory{.resident_bytes = resident * page,
                    .private_bytes = (resident - std::min(resident, pages(2))) * page};
}

ProcIo ProcFs::io(Pid pid) const {
  ProcIo out;
  const auto text = read_file(path(pid, "io"), kLimit);
  if (!text) {
    return out;
  }
  // rchar and wchar count all of read(2) and write(2), pipes and cache hits included; read_bytes counts only
  // disks.
  for (std::string_view line : split(*text, '\n')) {
    if (line.starts_with("rchar: ")) {
      out.read_chars = static_cast<uint64_t>(parse_int(line.substr(7)).value_or(0));
    } else if (line.starts_with("wchar: ")) {
      out.write_chars = static_cast<uint64_t>(parse_int(line.substr(7)).value_or(0));
    } else if (line.starts_with("syscr: ") || line.starts_with("syscw: ")) {
      out.calls += static_cast<uint64_t>(parse_int(line.substr(7)).value_or(0));
    }
  }
  return out;
}

ProcRunTime ProcFs::main_run_time(Pid pid) const {
  const std::string line = text(pid, "schedstat");
  // The third field is the number of timeslices.
  const auto fields = split(line, ' ');
  if (fields.size() < 2) {
    return {};
  }
  return {.cpu_ns = static_cast<uint64_t>(parse_int(fields[0]).value_or(0)),
          .queue_ns = static_cast<uint64_t>(parse_int(fields[1]).value_or(0))};
}

std::vector<Tid> ProcFs::threads(Pid pid) const {
  return numbers_in(path(pid, "task"));
}

std::vector<Pid> ProcFs::children(Pid pid) const {
  if (auto listed = listed_children(pid)) {
    return std::move(*listed);
  }
  auto all = children_of_all();
  return std::move(all[pid]);
}

std::optional<std::vector<Pid>> ProcFs::listed_children(Pid pid, int64_t threads_known) const {
  // The kernel lists a child only with the thread that forked it.
  const std::vector<Tid> tids = threads_known == 1 ? std::vector<Tid>{pid} : threads(pid);
  std::vector<Pid> out;
  bool have_file = tids.empty();
  for (Tid tid : tids) {
    const auto text = read_file(path(pid, fmt::format("task/{}/children", tid)), kLimit);
    if (!text) {
      continue;
    }
    have_file = true;
    for (std::string_view word : split(*text, ' ')) {
      if (auto child = parse_int(word)) {
        out.push_back(static_cast<Pid>(*child));
      }
    }
  }
  // A process that has just ended has no files either.
  if (!have_file && ::access(path(pid, "stat").c_str(), F_OK) == 0) {
    return std::nullopt;
  }
  return out;
}

std::map<Pid, std::vector<Pid>> ProcFs::children_of_all() const {
  std::map<Pid, std::vector<Pid>> out;
  for (Pid pid : numbers_in(root_)) {
    if (const auto st = stat(pid)) {
      out[st->ppid].push_back(pid);
    }
  }
  return out;
}

std::vector<std::string> ProcFs::cmdline(Pid pid) const {
  std::vector<std::string> out;
  const auto text = read_file(path(pid, "cmdline"), kLimit);
  if (!text || text->empty()) {
    return out;
  }
  std::string_view rest = *text;
  if (rest.back() == '\0') {
    rest.remove_suffix(1);
  }
  // A program that has changed its title leaves empty words behind, in place of its arguments.
  if (rest.ends_with(std::string_view("\0\0\0\0", 4))) {
    rest = rest.substr(0, rest.find_last_not_of('\0') + 1);
  }
  for (std::string_view word : split(rest, '\0')) {
    out.emplace_back(word);
  }
  return out;
}

std::map<std::string, std::string> ProcFs::environ(Pid pid) const {
  std::map<std::string, std::string> out;
  const auto text = read_file(path(pid, "environ"), kLimit);
  if (!text) {
    return out;
  }
  for (std::string_view entry : split(*text, '\0')) {
    const size_t eq = entry.find('=');
    if (eq != std::string_view::npos) {
      out.emplace(entry.substr(0, eq), entry.substr(eq + 1));
    }
  }
  return out;
}

std::string ProcFs::link(Pid pid, std::string_view name) const {
  return read_link(path(pid, name)).value_or("");
}

std::string ProcFs::text(Pid pid, std::string_view name) const {
  const auto content = read_file(path(pid, name), kLimit);
  return content ? std::string(trim(*content)) : std::string();
}

}  // namespace xpurun::base
