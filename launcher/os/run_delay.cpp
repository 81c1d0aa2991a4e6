#include "launcher/os/run_delay.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace xpurun::launcher {

namespace {

// The first threads are the main thread and those of the framework; hundreds of others may wait for input.
constexpr size_t kMostThreads = 32;

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
std::optional<RunDelay::Look> RunDelay::look() {
  Look out;
  std::map<base::Tid, uint64_t> now;
  for (const base::Tid tid : proc_.threads(pid_)) {
    if (now.size() == kMostThreads) {
      break;
    }
    const auto delay = delay_in(proc_.text(pid_, fmt::format("task/{}/schedstat", tid)));
    if (!delay) {
      continue;
    }
    now[tid] = *delay;
    const auto before = delays_.find(tid);
    const bool known = before != delays_.end();
    const uint64_t from = known ? before->second : 0;
    const int64_t more = *delay > from ? static_cast<int64_t>(*delay - from) : 0;
    all_ns_ += more;
    out.worst_ns = known ? std::max(out.worst_ns, more) : out.worst_ns;
  }
  delays_ = std::move(now);
  out.all_ns = all_ns_;
  return delays_.empty() ? std::nullopt : std::optional(out);
}

}  // namespace xpurun::launcher
