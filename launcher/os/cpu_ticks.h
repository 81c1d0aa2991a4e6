// The CPU times of the host since its start, from /proc/stat.
#pragma once

#include "common/base/result.h"

#include <cstdint>
#include <map>
#include <string_view>

namespace xpurun::launcher {

struct CpuTicks {
  uint64_t busy = 0;    // of all CPUs, with `stolen`; in ticks of sysconf(_SC_CLK_TCK) a second
  uint64_t stolen = 0;  // the hypervisor took from CPUs that had work
  int cpus = 0;         // lines "cpuN" in the text
};

// Reads the first lines of /proc/stat, proc(5). Fails without a line "cpu" of eight numbers (before Linux
// 2.6.11, or damaged). Any thread.
base::Result<CpuTicks> cpu_ticks_in(std::string_view stat);

// Ticks in which each CPU was busy, by its number: lines "cpuN" of the same text. Lines that are damaged are
// left out.
std::map<int, uint64_t> busy_ticks_in(std::string_view stat);

}  // namespace xpurun::launcher
