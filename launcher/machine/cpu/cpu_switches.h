// Who had the CPUs, from the kernel's own record of context switches (perf_event_open(2)): exact, and with
// processes that live for milliseconds. Needs CAP_PERFMON, or kernel.perf_event_paranoid of 0 or less.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "common/base/result.h"
#include "launcher/machine/cpu/cpu_times.h"

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace xpurun::launcher {

// Adds up what the records of the ring buffers say. Content is the kernel's, and still never trusted.
class SwitchSums {
 public:
  explicit SwitchSums(base::MonoNs begin) : begin_(begin) {}

  // Whole records of one CPU, in their order.
  void take(int cpu, std::span<const std::byte> records);
  // Names the processes that were seen first since the call before, while they live.
  void name_new(const base::ProcFs& proc);
  // The process that is on a CPU now has had the CPU until now.
  CpuTimes until(base::MonoNs now) const;

 private:
  struct Current {
    base::MonoNs since = 0;  // 0: unknown, because records were lost
    base::Pid pid = -1;      // -1: unknown; 0: idle, or a process of another PID namespace
  };

  void left(int cpu, base::Pid pid, base::Pid next, base::MonoNs at);
  Current& current(int cpu);

  base::MonoNs begin_;
  std::map<int, Current> current_;
  CpuTimes times_;
};

// The rings of some CPUs. Not thread-safe.
class CpuSwitches {
 public:
  // Fails where the kernel forbids that, with EACCES or EPERM as the cause.
  static base::Result<CpuSwitches> open(const std::vector<int>& cpus, base::MonoNs now);
  CpuSwitches(CpuSwitches&&) noexcept;
  CpuSwitches& operator=(CpuSwitches&&) noexcept;
  ~CpuSwitches();

  // Often enough: a ring holds about 1600 switches.
  void drain(const base::ProcFs& proc);
  CpuTimes times(base::MonoNs now) const { return sums_.until(now); }

 private:
  struct Ring;
  CpuSwitches(std::vector<Ring> rings, base::MonoNs now);

  std::vector<Ring> rings_;
  SwitchSums sums_;
};

}  // namespace xpurun::launcher
