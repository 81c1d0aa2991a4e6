#include "launcher/spans/process_load.h"

#include <algorithm>
#include <ctime>

namespace xpurun::launcher {

namespace {

// Workers of a data loader; a server may have started thousands of processes.
constexpr size_t kMostHelpers = 64;
constexpr double kHelpersS = 5;

// The clock of the process counts nanoseconds, /proc/PID/stat only ticks of 10 ms.
int64_t cpu_ns(base::Pid pid) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) {
    return -1;
  }
  return int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

}  // namespace

// Pages that a helper still shares with its parent since the fork count in both.
int64_t ProcessLoad::helpers_bytes(base::MonoNs now) {
  if (helpers_at_ != 0 && base::ns_to_s(now - helpers_at_) < kHelpersS) {
    return helpers_bytes_;
  }
  helpers_at_ = now;
  const auto helpers = proc_.listed_children(pid_, 1);
  helpers_bytes_ = helpers ? 0 : -1;
  for (size_t i = 0; helpers && i < std::min(helpers->size(), kMostHelpers); ++i) {
    const auto memory = proc_.memory((*helpers)[i]);
    helpers_bytes_ += memory ? static_cast<int64_t>(memory->private_bytes) : 0;
  }
  return helpers_bytes_;
}

std::optional<model::LoadSample> ProcessLoad::sample(base::MonoNs now) {
  const auto stat = proc_.stat(pid_);
  const int64_t cpu = cpu_ns(pid_);
  if (!stat || stat->state == 'Z' || cpu < 0) {
    return std::nullopt;
  }
  const auto memory = proc_.memory(pid_);
  const auto delay = delay_.look();
  return model::LoadSample{.at_ns = now,
                           .cpu_ns = cpu,
                           .run_delay_ns = delay ? delay->all_ns : -1,
                           .major_faults = static_cast<int64_t>(stat->major_faults),
                           .throttled_ns = throttled_.sample(now),
                           .resident_bytes = memory ? static_cast<int64_t>(memory->resident_bytes) : -1,
                           .private_bytes = memory ? static_cast<int64_t>(memory->private_bytes) : -1,
                           .helpers_bytes = memory ? helpers_bytes(now) : -1};
}

}  // namespace xpurun::launcher
