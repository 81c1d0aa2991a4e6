#include "launcher/spans/stolen_cpu.h"

#include "common/base/os/io.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr double kReadS = 0.9;

}  // namespace

int64_t StolenCpu::sample(base::MonoNs now) {
  if (begun_ && base::ns_to_s(now - at_) < kReadS) {
    return ticks_ ? total_ns_ : -1;
  }
  std::optional<CpuTicks> next;
  if (auto read = cpu_ticks_in(base::read_file_start(file_, 4096).value_or(""))) {
    next = *read;
  }
  if (ticks_ && next && next->stolen > ticks_->stolen && next->busy > ticks_->busy) {
    const double share =
        static_cast<double>(next->stolen - ticks_->stolen) / static_cast<double>(next->busy - ticks_->busy);
    total_ns_ += static_cast<int64_t>(std::min(share, 1.0) * static_cast<double>(now - at_));
  }
  begun_ = true;
  at_ = now;
  ticks_ = next;
  return ticks_ ? total_ns_ : -1;
}

}  // namespace xpurun::launcher
