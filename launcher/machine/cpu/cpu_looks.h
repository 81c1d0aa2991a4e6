// CpuLooks: who had the CPUs, from /proc alone. First the processes that use CPU time are found, by two looks
// at all processes; then their threads are looked at: the CPU time of a thread between two looks belongs to
// the CPU that the later look names. Exact to a clock tick (10 ms) a thread. Not thread-safe.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "launcher/machine/cpu/cpu_times.h"

#include <map>
#include <utility>

namespace xpurun::launcher {

class CpuLooks {
 public:
  CpuLooks(base::ProcFs proc, base::MonoNs now);

  // A look at the threads, or, half a window after the begin, the choice of the processes.
  void look(base::MonoNs now, base::MonoNs half_ns);
  // The time that times() covers; 0 before the processes were chosen.
  double covered_s(base::MonoNs now) const { return chosen_at_ == 0 ? 0 : base::ns_to_s(now - chosen_at_); }
  const CpuTimes& times() const { return times_; }

 private:
  std::map<base::Pid, uint64_t> all() const;
  void choose(base::MonoNs now);

  base::ProcFs proc_;
  base::MonoNs begin_ = 0;
  base::MonoNs chosen_at_ = 0;  // 0: not yet
  std::map<base::Pid, uint64_t> ticks_;
  std::map<std::pair<base::Pid, base::Tid>, uint64_t> threads_;  // ticks at the last look
  CpuTimes times_;
};

}  // namespace xpurun::launcher
