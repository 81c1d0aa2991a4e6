#include "commands/selftest/other_work.h"

#include "common/base/os/io.h"
#include "launcher/os/cpu_ticks.h"

#include <algorithm>
#include <sys/resource.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double share_of_all(double cpu_s, const CpuUse& begin, const CpuUse& end) {
  const double available = base::ns_to_s(end.at - begin.at) * begin.cpus;
  return available > 0 ? std::clamp(cpu_s / available, 0.0, 1.0) : 0;
}

}  // namespace

base::Result<CpuUse> cpu_use_from_stat(std::string_view stat, double ticks) {
  XPURUN_TRY_ASSIGN(const CpuTicks all, cpu_ticks_in(stat));
  if (all.cpus == 0) {
    return base::fail("/proc/stat names no CPU");
  }
  return CpuUse{.busy_s = static_cast<double>(all.busy) / ticks,
                .stolen_s = static_cast<double>(all.stolen) / ticks,
                .cpus = all.cpus};
}

base::Result<CpuUse> cpu_use_now() {
  XPURUN_TRY_ASSIGN(const std::string stat, base::read_file("/proc/stat"));
  XPURUN_TRY_ASSIGN(CpuUse out, cpu_use_from_stat(stat, static_cast<double>(::sysconf(_SC_CLK_TCK))));
  rusage children{};
  ::getrusage(RUSAGE_CHILDREN, &children);
  out.children_s = seconds(children.ru_utime) + seconds(children.ru_stime);
  out.at = base::mono_ns();
  return out;
}

double share_of_others(const CpuUse& begin, const CpuUse& end) {
  return share_of_all((end.busy_s - begin.busy_s) - (end.children_s - begin.children_s), begin, end);
}

double share_of_hypervisor(const CpuUse& begin, const CpuUse& end) {
  return share_of_all(end.stolen_s - begin.stolen_s, begin, end);
}

}  // namespace xpurun::launcher
