#include "launcher/spans/process_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace xpurun::launcher {

namespace {

// The first threads are the main thread and those of the framework; hundreds of others may wait for input.
constexpr size_t kMostThreads = 32;
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

// The second number of a schedstat file; nothing if the kernel does not count.
std::optional<uint64_t> delay_in(std::string_view schedstat) {
  const size_t at = schedstat.find(' ');
  uint64_t delay = 0;
  if (at == std::string_view::npos ||
      std::from_chars(schedstat.data() + at + 1, schedstat.data() + schedstat.size(), delay).ec !=
          std::errc()) {
    return std::nullopt;
  }
  return delay;
}

}  // namespace

// A thread takes its number along when it ends, so increases are added up.
int64_t ProcessLoad::run_delay() {
  std::map<base::Tid, uint64_t> now;
  for (const base::Tid tid : proc_.threads(pid_)) {
    if (now.size() == kMostThreads) {
      break;
    }
    if (const auto delay = delay_in(proc_.text(pid_, fmt::format("task/{}/schedstat", tid)))) {
      now[tid] = *delay;
      const auto before = delays_.find(tid);
      const uint64_t known = before == delays_.end() ? 0 : before->second;
      run_delay_ += *delay > known ? static_cast<int64_t>(*delay - known) : 0;
    }
  }
  delays_ = std::move(now);
  return delays_.empty() ? -1 : run_delay_;
}

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
  return model::LoadSample{.at_ns = now,
                           .cpu_ns = cpu,
                           .run_delay_ns = run_delay(),
                           .major_faults = static_cast<int64_t>(stat->major_faults),
                           .throttled_ns = throttled_.sample(now),
                           .resident_bytes = memory ? static_cast<int64_t>(memory->resident_bytes) : -1,
                           .private_bytes = memory ? static_cast<int64_t>(memory->private_bytes) : -1,
                           .helpers_bytes = memory ? helpers_bytes(now) : -1};
}

}  // namespace xpurun::launcher
