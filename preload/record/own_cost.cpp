#include "preload/record/own_cost.h"

#include "preload/core/calibration.h"
#include "preload/core/clock.h"
#include "preload/core/state.h"

namespace xpurun::preload {

namespace {

constinit std::atomic<uint64_t> g_clock_ns{0};

wire::Health& health() {
  return segment()->header.health;
}

// The time of one clock reading, in ns: the mean of an uninterrupted series. Measured once, by the first
// thread that needs it.
uint64_t clock_ns() {
  uint64_t least = g_clock_ns.load(std::memory_order_relaxed);
  if (least == 0) {
    constexpr uint64_t kReadings = 32;
    constexpr int kSeries = 8;
    least = UINT64_MAX;
    for (int series = 0; series < kSeries; ++series) {
      const uint64_t begin = now_ns();
      for (uint64_t i = 1; i < kReadings; ++i) {
        now_ns();
      }
      const uint64_t took = (now_ns() - begin) / kReadings;
      least = took < least ? took : least;
    }
    g_clock_ns.store(least == 0 ? 1 : least, std::memory_order_relaxed);
  }
  return least;
}

}  // namespace

uint64_t warm_now_ns() {
  now_ns();
  return now_ns();
}

// The clock readings are not part of the cost, because calls that are not measured make none.
void counted(uint64_t measured_ns, uint32_t every) {
  const uint64_t readings = 2 * clock_ns();
  add(health().own_ns, (measured_ns > readings ? measured_ns - readings : 0) * every);
}

void sampled(uint64_t host_ns) {
  add(health().samples, 1);
  add(health().event_host_ns, host_ns);
  add(health().own_ns, host_ns);
  add(health().gpu_ns, kPairGpuNs);
}

void marked(uint64_t host_ns) {
  add(health().marks, 1);
  add(health().mark_host_ns, host_ns);
  add(health().own_ns, host_ns);
  add(health().gpu_ns, kMarkGpuNs);
}

void profiled(uint64_t host_ns) {
  add(health().profiler_samples, 1);
  add(health().profiler_host_ns, host_ns);
  add(health().own_ns, host_ns);
  add(health().gpu_ns, kProfilerNs);
}

Spent spent() {
  const wire::Health& h = health();
  const uint64_t samples = h.event_host_ns.load() + h.samples.load() * kPairGpuNs +
                           h.profiler_host_ns.load() + h.profiler_samples.load() * kProfilerNs;
  const uint64_t marks = h.mark_host_ns.load() + h.marks.load() * kMarkGpuNs;
  return {samples, marks, h.poller_cpu_ns.load(),
          h.own_ns.load() - h.event_host_ns.load() - h.mark_host_ns.load() - h.profiler_host_ns.load()};
}

}  // namespace xpurun::preload
