// Work of other programs on this machine during a trial. A slow job needs a machine of its own: where other
// programs take the CPUs, every rank is slow, and the analysis says so.
#pragma once

#include "common/base/clock.h"
#include "common/base/result.h"

#include <string_view>

namespace xpurun::launcher {

struct CpuUse {
  double busy_s = 0;      // of all CPUs, since the machine started, with `stolen_s`
  double stolen_s = 0;    // the hypervisor took
  double children_s = 0;  // of ended children of this process and their descendants
  int cpus = 1;
  base::MonoNs at = 0;
};

// The first lines of /proc/stat, proc(5), with `ticks` a second. Fails on any other text.
base::Result<CpuUse> cpu_use_from_stat(std::string_view stat, double ticks);

// Any thread.
base::Result<CpuUse> cpu_use_now();

// Share of the CPU time between the two moments that went to neither idleness nor this process's children: 0
// to 1.
double share_of_others(const CpuUse& begin, const CpuUse& end);
// The part of it that the hypervisor took.
double share_of_hypervisor(const CpuUse& begin, const CpuUse& end);

}  // namespace xpurun::launcher
