#include "preload/poll/device_times.h"

#include "preload/core/calibration.h"
#include "preload/core/clock.h"
#include "preload/core/state.h"
#include "preload/cuda/cuda_api.h"
#include "preload/cuda/cuda_env.h"

namespace xpurun::preload {

void DeviceTimes::configure() {
  corrects_ = events_are_corrected();
  leaves_out_launches_ = corrects_ && launches_return_at_once();
}

void DeviceTimes::set_up(int device) {
  clocks_[device].set_up();
  overheads_[device].begin();
  launch_gaps_[device].set_up(device);
}

void DeviceTimes::tick(int device) {
  clocks_[device].tick();
}

uint64_t DeviceTimes::new_overhead_ns(int device) {
  return overheads_[device].finish() ? overheads_[device].ns() : 0;
}

// The time that the two events add to the duration of the work between them.
uint64_t DeviceTimes::own_time_of_events(const Pending& item) const {
  const wire::OpKey& key = segment()->ops[item.op].key;
  // Small kernels follow each other so closely that the start event overlaps the previous kernel.
  if (!corrects_ || key.op_class == static_cast<uint8_t>(wire::OpClass::kernel)) {
    return 0;
  }
  const uint64_t own = overheads_[item.device].ns();
  const uint64_t gap = launch_gaps_[item.device].ns(key);
  return own > gap ? own : gap;
}

// An idle GPU passes the start event at once, then waits for the kernel, which the host is still submitting.
// That wait is not the kernel's time. The kernel starts about when the call returns, for calls that launch
// one or two kernels.
void DeviceTimes::leave_out_the_launch(const Pending& item, uint64_t end_ns, wire::Event* event) const {
  const auto op_class = static_cast<wire::OpClass>(segment()->ops[item.op].key.op_class);
  const bool is_launch = op_class == wire::OpClass::matmul || op_class == wire::OpClass::kernel;
  const uint64_t begin_ns = item.launched_ns + launch_gaps_[item.device].after_return_ns();
  // The GPU cannot have passed the start event before the call recorded it.
  const bool is_plausible =
      event->begin_ns + kClockErrorNs > item.call_ns && end_ns > item.launched_ns + kEventNs;
  if (!is_launch || !is_plausible || !clocks_[item.device].is_close()) {
    return;
  }
  if (end_ns - begin_ns < event->duration_ns) {
    event->duration_ns = end_ns - begin_ns;
    event->begin_ns = begin_ns;
  }
}

bool DeviceTimes::measure(const Pending& item, uint64_t last_end_ns, uint64_t now, wire::Event* event) const {
  if (!item.timed) {
    event->source = static_cast<uint8_t>(wire::Source::host_query);
    event->flags = wire::kEventHostBegin;
    // No timing events: the work began when it was launched, or when the work before it on the stream was
    // done. The end is accurate to one round of the poller.
    event->begin_ns = item.launched_ns > last_end_ns ? item.launched_ns : last_end_ns;
    event->duration_ns = now > event->begin_ns ? now - event->begin_ns : 0;
    return true;
  }
  const EventPool& pool = *event_pool(item.device);
  float ms = 0;
  if (cuda_api().event_elapsed(&ms, pool.start(item.event), pool.stop(item.event)) != 0) {
    forget_cuda_error();
    return false;
  }
  event->source = static_cast<uint8_t>(wire::Source::events);
  event->how = item.how;
  // cudaEventElapsedTime returns milliseconds as a float, with a resolution of about 0.5 us.
  const uint64_t elapsed = ms > 0 ? static_cast<uint64_t>(static_cast<double>(ms) * 1e6) : 0;
  const uint64_t own = own_time_of_events(item);
  event->duration_ns = elapsed - (elapsed < own ? elapsed : own);
  event->begin_ns = clocks_[item.device].host_time_of(pool.start(item.event));
  // The clocks may disagree by some us. Beyond 1 ms the alignment is wrong, and the time of the call is used.
  if (event->begin_ns + kNsPerMs < item.call_ns || event->begin_ns > now + kNsPerMs) {
    event->begin_ns = item.call_ns;
    event->flags = wire::kEventHostBegin;
  } else if (leaves_out_launches_) {
    leave_out_the_launch(item, event->begin_ns + elapsed, event);
  }
  return true;
}

}  // namespace xpurun::preload
