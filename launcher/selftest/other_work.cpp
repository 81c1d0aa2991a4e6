#include "launcher/selftest/other_work.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <sys/resource.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Columns of the line "cpu": user, nice, system, idle, iowait, irq, softirq, steal. Time of guests is in
// `user` already.
constexpr std::array<bool, 8> kIsBusy = {true, true, true, false, false, true, true, true};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

base::Result<CpuUse> cpu_use_from_stat(std::string_view stat, double ticks) {
  CpuUse out{.cpus = 0};
  bool has_sum = false;
  for (const std::string_view line : base::split(stat, '\n')) {
    if (!line.starts_with("cpu")) {
      continue;
    }
    if (!line.starts_with("cpu ")) {
      ++out.cpus;
      continue;
    }
    const char* at = line.data() + 4;
    const char* const end = line.data() + line.size();
    for (const bool busy : kIsBusy) {
      while (at != end && *at == ' ') {
        ++at;
      }
      double value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc()) {
        return base::fail("/proc/stat: the line \"cpu\" has fewer than 8 numbers");
      }
      at = next;
      out.busy_s += busy ? value / ticks : 0;
    }
    has_sum = true;
  }
  if (!has_sum || out.cpus == 0) {
    return base::fail("/proc/stat names no CPU");
  }
  return out;
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
  const double available = base::ns_to_s(end.at - begin.at) * begin.cpus;
  const double others = (end.busy_s - begin.busy_s) - (end.children_s - begin.children_s);
  return available > 0 ? std::clamp(others / available, 0.0, 1.0) : 0;
}

}  // namespace xpurun::launcher
