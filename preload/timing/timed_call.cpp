#include "preload/timing/timed_call.h"

#include "preload/supervisor_link.h"
#include "preload/timing/cuda_api.h"
#include "preload/timing/event_pool.h"
#include "preload/timing/op_table.h"

namespace xpurun::preload {

namespace {

// Our cost on calls that are not timed is measured on one of so many.
constexpr uint64_t kCostEvery = 256;
// A stream that does not move must leave events to the others.
constexpr uint32_t kStreamShare = kPoolEvents / 4;
constexpr uint32_t kStreamSlots = 64;

constinit std::atomic<uint32_t> g_period{1};
constinit std::atomic<int32_t> g_captures{0};
constinit std::atomic<uint32_t> g_unfinished[kStreamSlots] = {};

std::atomic<uint32_t>& unfinished(void* stream) {
  const auto bits = reinterpret_cast<uintptr_t>(stream);
  return g_unfinished[(bits >> 4 ^ bits >> 12) % kStreamSlots];
}

wire::Health& health() {
  return segment()->header.health;
}

// An event of the calling thread's device, or kNoEvent.
uint32_t take_event(int* device, void* stream) {
  if (!load_cuda_api() || error_is_pending() || cuda_api().get_device(device) != 0) {
    return kNoEvent;
  }
  EventPool* pool = event_pool(*device);
  if (pool == nullptr || pool->state() != EventPool::State::ready) {
    if (pool != nullptr) {
      pool->want();
    }
    return kNoEvent;
  }
  if (!stream_has_room(stream)) {
    add(health().stream_full, 1);
    return kNoEvent;
  }
  const uint32_t event = pool->take();
  if (event == kNoEvent) {
    add(health().no_event, 1);
  }
  return event;
}

bool is_its_turn(const wire::OpEntry& op) {
  return level() == wire::Level::full ||
         op.calls.load(std::memory_order_relaxed) % g_period.load(std::memory_order_relaxed) == 0;
}

void begin_timing(Ticket& ticket, const CallInfo& info) {
  const uint64_t before = now_ns();
  ticket.event = take_event(&ticket.device, info.stream);
  if (ticket.event == kNoEvent) {
    return;
  }
  EventPool& pool = *event_pool(ticket.device);
  // Always asked here: a capture begun behind our back must not find an event of ours in it.
  const bool captured = is_capturing(info.stream);
  const bool recorded = !captured && cuda_api().event_record(pool.start(ticket.event), info.stream) == 0;
  if (!recorded) {
    if (!captured) {
      forget_cuda_error();
    }
    pool.give(ticket.event);
    ticket.event = kNoEvent;
    return;
  }
  ticket.call_ns = now_ns();
  ticket.record_ns = ticket.call_ns - before;
}

}  // namespace

uint64_t now_ns() {
  return monotonic_ns();
}

void set_period(uint32_t period) {
  g_period.store(period, std::memory_order_relaxed);
}

void capture_began() {
  g_captures.fetch_add(1);
}

void capture_ended() {
  int32_t now = g_captures.load();
  while (now > 0 && !g_captures.compare_exchange_weak(now, now - 1)) {
  }
}

bool goes_into_a_graph(void* stream) {
  return g_captures.load(std::memory_order_relaxed) > 0 && load_cuda_api() && is_capturing(stream);
}

bool stream_has_room(void* stream) {
  return unfinished(stream).load(std::memory_order_relaxed) < kStreamShare;
}

void stream_gains(void* stream) {
  unfinished(stream).fetch_add(1, std::memory_order_relaxed);
}

void stream_loses(void* stream) {
  unfinished(stream).fetch_sub(1, std::memory_order_relaxed);
}

Ticket begin_call(const CallInfo& info) {
  wire::Segment& shared = *segment();
  Ticket ticket;
  const bool measure = health().hooked_calls.fetch_add(1, std::memory_order_relaxed) % kCostEvery == 0;
  const uint64_t begin = measure ? now_ns() : 0;
  ticket.op = find_op(shared, info.key);
  wire::OpEntry& op = shared.ops[ticket.op];
  if (goes_into_a_graph(info.stream)) {
    add(op.captured, 1);
    add(health().captured, 1);
    ticket.op = kNoOp;
    return ticket;
  }
  if (is_its_turn(op)) {
    begin_timing(ticket, info);
  }
  if (measure && ticket.event == kNoEvent) {
    ticket.begin_cost_ns = now_ns() - begin;
  }
  return ticket;
}

void end_call(const Ticket& ticket, const CallInfo& info, bool succeeded) {
  if (ticket.op == kNoOp || !is_timing_on()) {
    return;
  }
  wire::OpEntry& op = segment()->ops[ticket.op];
  const bool timed = ticket.event != kNoEvent;
  const uint64_t returned = timed || ticket.begin_cost_ns != 0 ? now_ns() : 0;
  const uint64_t number = succeeded ? op.calls.fetch_add(1, std::memory_order_relaxed) : 0;
  if (succeeded) {
    add(op.work, info.work);
  }
  if (!timed) {
    if (returned != 0) {
      add(health().own_ns, (ticket.begin_cost_ns + now_ns() - returned) * kCostEvery);
    }
    return;
  }
  EventPool& pool = *event_pool(ticket.device);
  if (!succeeded || cuda_api().event_record(pool.stop(ticket.event), info.stream) != 0) {
    if (succeeded) {
      forget_cuda_error();
    }
    pool.give(ticket.event);
    return;
  }
  const uint64_t recorded = now_ns();
  Pending pending{};
  pending.stream = info.stream;
  pending.call_ns = ticket.call_ns;
  pending.launched_ns = returned;
  pending.work = info.work;
  pending.op = ticket.op;
  pending.comm = wire::kNoComm;
  pending.sequence = static_cast<uint32_t>(number);
  pending.event = ticket.event;
  pending.device = ticket.device;
  pending.timed = true;
  stream_gains(info.stream);
  if (!pending_queue().push(pending)) {
    stream_loses(info.stream);
    pool.give(ticket.event);
    add(health().queue_full, 1);
    return;
  }
  add(health().samples, 1);
  add(health().event_host_ns, ticket.record_ns + recorded - returned);
  add(health().own_ns, ticket.record_ns + now_ns() - returned);
}

void count_host_call(const CallInfo& info, uint64_t begin_ns, uint64_t end_ns) {
  wire::Segment& shared = *segment();
  add(health().hooked_calls, 1);
  wire::OpEntry& op = shared.ops[find_op(shared, info.key)];
  add(op.calls, 1);
  add(op.work, info.work);
  add(op.timed, 1);
  add(op.timed_work, info.work);
  add(op.timed_ns, end_ns - begin_ns);
  add(op.host_ns, end_ns - begin_ns);
}

}  // namespace xpurun::preload
