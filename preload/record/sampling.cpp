#include "preload/record/sampling.h"

namespace xpurun::preload {

void set_periods(const Periods& periods) {
  g_state.sample.store(periods.sample, std::memory_order_relaxed);
  g_state.mark.store(periods.mark, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
