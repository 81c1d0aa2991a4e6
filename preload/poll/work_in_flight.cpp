#include "preload/poll/work_in_flight.h"

#include "preload/core/calibration.h"
#include "preload/core/clock.h"
#include "preload/core/state.h"
#include "preload/core/vendor.h"
#include "preload/cuda/cuda_api.h"
#include "preload/nccl/completion_events.h"
#include "preload/nccl/ledger.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/poll/event_writer.h"

namespace xpurun::preload {

namespace {

// Each cudaEventQuery takes locks that the program's threads also need. Work on one stream finishes in order,
// so one query of an event up to this far ahead covers all earlier work.
constexpr uint32_t kAhead = 64;

void forget(const Pending& item) {
  give_back(item);
  if (item.comm != wire::kNoComm) {
    gone_from_flight(item.comm);
  }
}

int state_of(const Pending& item) {
  const EventPool& pool = *event_pool(item.device);
  return cuda_api().event_query(item.timed ? pool.stop(item.event) : pool.done(item.event));
}

}  // namespace

void WorkInFlight::completed(const Pending& item, uint32_t number, StreamQueues::Stream& stream,
                             uint64_t now) {
  wire::Segment& shared = *segment();
  add(shared.header.health.completed, 1);
  if (item.comm != wire::kNoComm) {
    collectives_done(shared.comms[item.comm], item.collective, item.point_to_point, now);
  }
  wire::Event event{};
  if (item.op != kNoOp && times_.measure(item, stream.last_end_ns, now, &event)) {
    event.op = item.op;
    event.sequence = item.sequence;
    event.stream = static_cast<uint16_t>(number);
    event.delay_us = delay_us(item.call_ns, event.begin_ns);
    event.flags |= item.first_of_step ? wire::kEventFirstOfStep : 0;
    if (item.messages == 0) {
      add_to_totals(shared.ops[item.op], event.duration_ns, item.work);
      write_event(event);
    }
    for (uint32_t i = 0; i < item.messages; ++i) {
      event.source = static_cast<uint8_t>(wire::Source::event_group);
      event.op = item.message[i].op;
      event.sequence = item.message[i].number;
      write_event(event);
    }
  }
  stream.last_end_ns = now;
}

// Queries one, two, four, ... items ahead while the events have been reached, then halves the distance each
// time that one has not. A stream without news costs one query.
bool WorkInFlight::poll_stream(uint32_t number) {
  StreamQueues::Stream& stream = queues_.stream(number);
  // The last queue collects all streams beyond the limit, and the handle of the per-thread default stream
  // stands for one stream per thread: there, a reached event says nothing about earlier ones.
  const uint32_t most = queues_.is_in_order(stream) ? kAhead : 1;
  uint32_t step = 1;
  bool all_reached = true;
  while (step > 0 && queues_.front(stream) != nullptr) {
    uint32_t count = step;
    const int state = state_of(*queues_.ahead(stream, &count));
    if (state == kCudaErrorNotReady) {
      step = count / 2;
      all_reached = false;
      continue;
    }
    if (state != 0) {
      forget_cuda_error();
      return false;
    }
    const uint64_t now = now_ns();
    for (uint32_t i = 0; i < count; ++i) {
      const Pending& item = *queues_.front(stream);
      completed(item, number, stream, now);
      forget(item);
      queues_.pop(stream);
    }
    step = all_reached && 2 * step <= most ? 2 * step : step;
  }
  return true;
}

bool WorkInFlight::poll() {
  Pending item{};
  while (pending_queue().pop(&item)) {
    if (!queues_.push(item)) {
      forget(item);
      add(segment()->header.health.queue_full, 1);
    }
  }
  for (uint32_t i = 0; i < queues_.count(); ++i) {
    if (!poll_stream(i)) {
      return false;
    }
  }
  return true;
}

void WorkInFlight::take_profiled() {
  wire::Segment& shared = *segment();
  ProfiledCollective done{};
  for (uint32_t at = 0; next_profiled(&at, &done);) {
    const Expected& e = done.expected;
    wire::Event event{};
    const bool lacks_ends = times_.corrects() && done.source == wire::Source::nccl_profiler;
    event.begin_ns = done.begin_ns;
    // NCCL's profiler times the channels inside the kernel; the kernel's own start and end around them are
    // added.
    event.duration_ns = done.duration_ns + (lacks_ends ? kAroundChannelsNs : 0);
    event.op = e.op;
    event.sequence = static_cast<uint32_t>(e.sequence);
    event.delay_us = delay_us(e.call_ns, done.begin_ns);
    event.stream = static_cast<uint16_t>(queues_.number_of(e.stream, shared.comms[e.comm].device.load()));
    event.source = static_cast<uint8_t>(done.source);
    event.how = done.how;
    event.flags = e.first_of_step ? wire::kEventFirstOfStep : 0;
    add_to_totals(shared.ops[e.op], event.duration_ns, e.work);
    write_event(event);
  }
}

}  // namespace xpurun::preload
