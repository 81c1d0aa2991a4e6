#include "preload/record/sampling.h"

namespace xpurun::preload {

constinit SamplingState g_sampling;

void set_periods(const Periods& periods) {
  g_sampling.sample.store(periods.sample, std::memory_order_relaxed);
  g_sampling.mark.store(periods.mark, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
