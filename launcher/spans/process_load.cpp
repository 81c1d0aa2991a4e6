#include "launcher/spans/process_load.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>

namespace xpurun::launcher {

namespace {

// The first threads are the main thread and those of the framework; hundreds of others may wait for input.
constexpr size_t kMostThreads = 32;

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

std::optional<model::LoadSample> ProcessLoad::sample(base::MonoNs now) {
  const auto stat = proc_.stat(pid_);
  const int64_t cpu = cpu_ns(pid_);
  if (!stat || stat->state == 'Z' || cpu < 0) {
    return std::nullopt;
  }
  return model::LoadSample{.at_ns = now,
                           .cpu_ns = cpu,
                           .run_delay_ns = run_delay(),
                           .major_faults = static_cast<int64_t>(stat->major_faults),
                           .throttled_ns = throttled_.sample(now)};
}

}  // namespace xpurun::launcher
