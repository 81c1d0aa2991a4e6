#include "launcher/machine/cpu/cpu_looks.h"

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {

// Less of one CPU takes nothing away that a rank would miss.
constexpr double kLeastUse = 0.03;
constexpr size_t kMostChosen = 32;          // processes
constexpr size_t kMostChosenThreads = 128;  // of one process

uint64_t ticks_of(const base::ProcStat& stat) {
  return stat.utime_ticks + stat.stime_ticks;
}

}  // namespace

CpuLooks::CpuLooks(base::ProcFs proc, base::MonoNs now)
    : proc_(std::move(proc)), begin_(now), ticks_(all()) {}

std::map<base::Pid, uint64_t> CpuLooks::all() const {
  std::map<base::Pid, uint64_t> out;
  for (const base::Pid pid : proc_.processes()) {
    if (const auto stat = proc_.stat(pid)) {
      out[pid] = ticks_of(*stat);
    }
  }
  return out;
}

void CpuLooks::choose(base::MonoNs now) {
  chosen_at_ = now;
  std::vector<std::pair<double, base::Pid>> users;
  for (const auto& [pid, ticks] : all()) {
    const auto before = ticks_.find(pid);
    // A process that has begun since had no time before.
    const uint64_t from = before == ticks_.end() ? 0 : before->second;
    const double used = ticks > from ? base::ticks_to_s(ticks - from) : 0;
    if (used >= kLeastUse * base::ns_to_s(now - begin_)) {
      users.emplace_back(used, pid);
    }
  }
  std::sort(users.rbegin(), users.rend());
  users.resize(std::min(users.size(), kMostChosen));
  for (const auto& [used, pid] : users) {
    size_t threads = 0;
    for (const base::Tid tid : proc_.threads(pid)) {
      const auto stat = proc_.thread_stat(pid, tid);
      if (stat && threads++ < kMostChosenThreads) {
        threads_[{pid, tid}] = ticks_of(*stat);
        times_.seen[pid] = {.command = stat->comm, .parent = stat->ppid};
      }
    }
  }
}

void CpuLooks::look(base::MonoNs now, base::MonoNs half_ns) {
  if (chosen_at_ == 0) {
    if (now - begin_ >= half_ns) {
      choose(now);
    }
    return;
  }
  for (auto& [thread, ticks] : threads_) {
    const auto stat = proc_.thread_stat(thread.first, thread.second);
    if (stat && ticks_of(*stat) > ticks) {
      times_.seconds[thread.first][stat->processor] += base::ticks_to_s(ticks_of(*stat) - ticks);
      ticks = ticks_of(*stat);
    }
  }
}

}  // namespace xpurun::launcher
