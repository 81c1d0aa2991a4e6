#include "launcher/stacks/live_targets.h"

#include "common/base/strings.h"
#include "launcher/processes/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostProcesses = 65536;

bool runs_python(const base::ProcFs& proc, base::Pid pid) {
  return base::base_name(proc.exe(pid)).find("python") != std::string_view::npos;
}

std::optional<Identity> identity_of(const base::ProcFs& proc, base::Pid pid) {
  return identity_from(proc.environ(pid));
}

// Workers inherit the environment of their rank: the outermost Python process with a rank is the rank.
bool has_python_ancestor(const base::ProcFs& proc, base::Pid pid, const Identity& identity) {
  constexpr int kDeepest = 64;
  auto stat = proc.stat(pid);
  for (int depth = 0; stat && stat->ppid > 1 && depth < kDeepest; ++depth) {
    const base::Pid parent = stat->ppid;
    if (identity_of(proc, parent) != identity) {
      return false;
    }
    if (runs_python(proc, parent)) {
      return true;
    }
    stat = proc.stat(parent);
  }
  return false;
}

}  // namespace

bool has_ended(const base::ProcFs& proc, base::Pid pid) {
  const auto stat = proc.stat(pid);
  // A process whose main thread has ended shows as a zombie while other threads still run.
  return !stat || stat->state == 'X' || (stat->state == 'Z' && stat->num_threads <= 1);
}

base::Result<std::vector<base::Pid>> parse_pids(std::string_view text) {
  std::vector<base::Pid> out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find_first_not_of(", \t\r\n", at);
    if (begin == std::string_view::npos) {
      break;
    }
    const size_t end = std::min(text.find_first_of(", \t\r\n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const auto pid = base::parse_int(word);
    if (!pid || *pid < 1 || *pid > std::numeric_limits<int32_t>::max()) {
      return base::fail(fmt::format("'{}' is not a process id", base::sanitize(word)));
    }
    out.push_back(static_cast<base::Pid>(*pid));
    at = end;
  }
  if (out.empty()) {
    return base::fail("no process id");
  }
  return out;
}

std::vector<base::Pid> with_descendants(const base::ProcFs& proc, const std::vector<base::Pid>& pids,
                                        base::Pid except) {
  std::vector<base::Pid> out;
  std::set<base::Pid> seen = {except};
  std::vector<base::Pid> open(pids.rbegin(), pids.rend());
  while (!open.empty() && out.size() < kMostProcesses) {
    const base::Pid pid = open.back();
    open.pop_back();
    if (!seen.insert(pid).second) {
      continue;
    }
    out.push_back(pid);
    std::vector<base::Pid> children = proc.children(pid);
    std::erase_if(children, [&](base::Pid child) { return has_ended(proc, child); });
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return out;
}

std::vector<DumpTarget> identify_targets(const base::ProcFs& proc, const std::vector<base::Pid>& pids) {
  std::vector<DumpTarget> out;
  std::set<base::Pid> seen;
  for (const base::Pid pid : pids) {
    if (!seen.insert(pid).second) {
      continue;
    }
    DumpTarget t{.pid = pid, .role = model::ProcessRole::other};
    if (const auto identity = identity_of(proc, pid); identity && runs_python(proc, pid)) {
      t.rank = identity->rank;
      t.local_rank = identity->local_rank;
      t.role =
          has_python_ancestor(proc, pid, *identity) ? model::ProcessRole::worker : model::ProcessRole::rank;
    }
    out.push_back(t);
  }
  return out;
}

}  // namespace xpurun::launcher
