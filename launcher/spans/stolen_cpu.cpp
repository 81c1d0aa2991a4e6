#include "launcher/spans/stolen_cpu.h"

#include "common/base/os/io.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace xpurun::launcher {

namespace {

constexpr double kReadS = 0.9;

// Columns of the line "cpu", proc(5). The times of guests are in `user` and `nice` too.
enum Column { user, nice, system, idle, iowait, irq, softirq, steal, columns };

}  // namespace

StolenCpu::Ticks StolenCpu::ticks_in(const std::string& stat) {
  constexpr std::string_view kBegin = "cpu ";
  if (!stat.starts_with(kBegin)) {
    return {};
  }
  std::array<uint64_t, columns> values{};
  const char* at = stat.data() + kBegin.size();
  const char* const end = stat.data() + std::min(stat.find('\n'), stat.size());
  for (uint64_t& value : values) {
    while (at < end && *at == ' ') {
      ++at;
    }
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) {
      return {};  // before Linux 2.6.11, or damaged
    }
    at = next;
  }
  uint64_t busy = 0;
  for (const Column one : {user, nice, system, irq, softirq, steal}) {
    busy += values[one];
  }
  return {.busy = busy, .stolen = values[steal], .known = true};
}

int64_t StolenCpu::sample(base::MonoNs now) {
  if (begun_ && base::ns_to_s(now - at_) < kReadS) {
    return ticks_.known ? total_ns_ : -1;
  }
  const Ticks next = ticks_in(base::read_file_start(file_, 4096).value_or(""));
  if (begun_ && next.known && ticks_.known && next.stolen > ticks_.stolen && next.busy > ticks_.busy) {
    const double share =
        static_cast<double>(next.stolen - ticks_.stolen) / static_cast<double>(next.busy - ticks_.busy);
    total_ns_ += static_cast<int64_t>(std::min(share, 1.0) * static_cast<double>(now - at_));
  }
  begun_ = true;
  at_ = now;
  ticks_ = next;
  return ticks_.known ? total_ns_ : -1;
}

}  // namespace xpurun::launcher
