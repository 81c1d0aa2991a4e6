#include "preload/timing/timed_call.h"

#include "preload/supervisor_link.h"
#include "preload/timing/calls_matmul.h"
#include "preload/timing/cuda_api.h"
#include "preload/timing/event_pool.h"
#include "preload/timing/op_table.h"

namespace xpurun::preload {

namespace {

// Our cost on calls that are not timed is measured on one of so many.
constexpr uint32_t kCostEvery = 256;
// What events cost the GPU: it waits for the work before them and starts what follows from nothing. By what
// about a hundred pairs cost a step of 18 ms on an H200: 6.8 us a pair.
constexpr uint64_t kPairGpuNs = 7000;
// No time is written, and the work before was the last of its kind anyway.
constexpr uint64_t kMarkGpuNs = 500;
// What NCCL does for a collective that it is to time: an entry a channel for its proxy thread, two numbers a
// channel written by the kernel. About twenty of them made no difference to a step of 67 ms that could be
// seen beside a noise of 0.2 %.
constexpr uint64_t kProfilerNs = 4000;
constexpr uint32_t kStreamSlots = 64;
// There are some ten times as many launches of kernels as matmuls, and one tells less. A power of two.
constexpr uint64_t kKernelsRarer = 8;

constinit std::atomic<uint32_t> g_sample_period{1};
constinit std::atomic<uint32_t> g_mark_period{1};
constinit std::atomic<int32_t> g_captures{0};
constinit std::atomic<uint64_t> g_clock_ns{0};
constinit std::atomic<uint32_t> g_unfinished[kStreamSlots] = {};
__thread uint32_t t_calls = 0;

std::atomic<uint32_t>& unfinished(void* stream) {
  const auto bits = reinterpret_cast<uintptr_t>(stream);
  return g_unfinished[(bits >> 4 ^ bits >> 12) % kStreamSlots];
}

wire::Health& health() {
  return segment()->header.health;
}

// A stream that does not move must leave events to the others.
bool stream_has_room(void* stream, const EventPool& pool) {
  return unfinished(stream).load(std::memory_order_relaxed) < pool.size() / 4;
}

void* stream_of(const Counted& call) {
  return call.blas != nullptr ? blas_stream(call.blas) : call.stream;
}

void begin_timing(Ticket& ticket, const Counted& call) {
  const uint64_t before = now_ns();
  ticket.stream = stream_of(call);
  ticket.event = take_event(ticket.stream, &ticket.device);
  if (ticket.event == kNoEvent) {
    return;
  }
  EventPool& pool = *event_pool(ticket.device);
  if (cuda_api().event_record(pool.start(ticket.event), ticket.stream) != 0) {
    forget_cuda_error();
    pool.give(ticket.event);
    ticket.event = kNoEvent;
    return;
  }
  ticket.call_ns = now_ns();
  ticket.record_ns = ticket.call_ns - before;
}

// Without what the first look after other work takes.
uint64_t warm_now_ns() {
  now_ns();
  return now_ns();
}

// What a look at the clock takes, at the least. Any thread may find it out, once.
uint64_t clock_ns() {
  uint64_t least = g_clock_ns.load(std::memory_order_relaxed);
  if (least == 0) {
    constexpr int kLooks = 64;
    least = UINT64_MAX;
    for (int i = 0; i < kLooks; ++i) {
      const uint64_t begin = now_ns();
      const uint64_t took = now_ns() - begin;
      least = took < least ? took : least;
    }
    g_clock_ns.store(least == 0 ? 1 : least, std::memory_order_relaxed);
  }
  return least;
}

// A call that is only counted, measured in two parts. Calls that are not measured do not look at the clock.
void counted(uint64_t measured_ns) {
  const uint64_t looks = 2 * clock_ns();
  add(health().own_ns, (measured_ns > looks ? measured_ns - looks : 0) * kCostEvery);
}

}  // namespace

uint64_t now_ns() {
  return monotonic_ns();
}

void set_periods(const Periods& periods) {
  g_sample_period.store(periods.sample, std::memory_order_relaxed);
  g_mark_period.store(periods.mark, std::memory_order_relaxed);
}

bool is_to_be_timed(wire::OpClass op_class) {
  const uint32_t untimed = segment()->header.to_rank.untimed.load(std::memory_order_relaxed);
  return (untimed >> static_cast<uint32_t>(op_class) & 1) == 0;
}

bool is_turn_to_time(uint64_t number, wire::OpClass op_class) {
  const uint64_t rarer = op_class == wire::OpClass::kernel ? kKernelsRarer : 1;
  const uint64_t period = g_sample_period.load(std::memory_order_relaxed) * rarer;
  return (number & (period - 1)) == 0 && is_to_be_timed(op_class);
}

bool is_turn_to_mark(uint64_t number) {
  return (number & (g_mark_period.load(std::memory_order_relaxed) - 1)) == 0;
}

uint32_t take_event(void* stream, int* device) {
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
  if (!stream_has_room(stream, *pool)) {
    add(health().stream_full, 1);
    return kNoEvent;
  }
  if (is_capturing(stream)) {
    return kNoEvent;
  }
  const uint32_t event = pool->take();
  if (event == kNoEvent) {
    add(health().no_event, 1);
  }
  return event;
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
  return {samples, marks,
          h.own_ns.load() - h.event_host_ns.load() - h.mark_host_ns.load() - h.profiler_host_ns.load() +
              h.poller_cpu_ns.load()};
}

void capture_began() {
  g_captures.fetch_add(1);
}

void capture_ended() {
  int32_t now = g_captures.load();
  while (now > 0 && !g_captures.compare_exchange_weak(now, now - 1)) {
  }
}

bool a_capture_goes_on() {
  return g_captures.load(std::memory_order_relaxed) > 0;
}

bool goes_into_a_graph(void* stream) {
  return a_capture_goes_on() && load_cuda_api() && is_capturing(stream);
}

void stream_gains(void* stream) {
  unfinished(stream).fetch_add(1, std::memory_order_relaxed);
}

void stream_loses(void* stream) {
  unfinished(stream).fetch_sub(1, std::memory_order_relaxed);
}

uint64_t cost_begins() {
  return ++t_calls % kCostEvery == 0 ? warm_now_ns() : 0;
}

Ticket begin_call(const CallInfo& info) {
  const uint64_t begin = cost_begins();
  const uint32_t entry = find_op(*segment(), info.key);
  const wire::OpEntry& op = segment()->ops[entry];
  // Not all kinds at the same call number: their turns are spread by their hashes.
  const bool turn = is_turn_to_time(op.calls.load(std::memory_order_relaxed) + op.hash,
                                    static_cast<wire::OpClass>(info.key.op_class));
  return begin_counted({entry, info.stream, info.blas}, turn ? Turn::time : Turn::count, begin);
}

Ticket begin_counted(const Counted& call, Turn turn, uint64_t cost_began_ns) {
  Ticket ticket;
  ticket.op = call.op;
  if (a_capture_goes_on() && goes_into_a_graph(stream_of(call))) {
    add(segment()->ops[call.op].captured, 1);
    add(health().captured, 1);
    ticket.op = kNoOp;
    return ticket;
  }
  if (turn == Turn::time) {
    begin_timing(ticket, call);
  }
  if (cost_began_ns != 0 && ticket.event == kNoEvent) {
    ticket.begin_cost_ns = now_ns() - cost_began_ns;
  }
  return ticket;
}

void end_call(const Ticket& ticket, uint64_t work, Outcome outcome) {
  if (ticket.op == kNoOp || !is_timing_on()) {
    return;
  }
  wire::OpEntry& op = segment()->ops[ticket.op];
  const bool timed = ticket.event != kNoEvent;
  const bool succeeded = outcome == Outcome::accepted;
  const bool measured = ticket.begin_cost_ns != 0;
  const uint64_t returned = timed ? now_ns() : measured ? warm_now_ns() : 0;
  const uint64_t number = succeeded ? op.calls.fetch_add(1, std::memory_order_relaxed) : 0;
  if (succeeded) {
    add(op.work, work);
  }
  if (!timed) {
    if (measured) {
      counted(ticket.begin_cost_ns + now_ns() - returned);
    }
    return;
  }
  EventPool& pool = *event_pool(ticket.device);
  if (!succeeded || cuda_api().event_record(pool.stop(ticket.event), ticket.stream) != 0) {
    if (succeeded) {
      forget_cuda_error();
    }
    pool.give(ticket.event);
    return;
  }
  Pending pending{};
  pending.stream = ticket.stream;
  pending.call_ns = ticket.call_ns;
  pending.launched_ns = returned;
  pending.work = work;
  pending.op = ticket.op;
  pending.comm = wire::kNoComm;
  pending.sequence = static_cast<uint32_t>(number);
  pending.event = ticket.event;
  pending.device = ticket.device;
  pending.timed = true;
  stream_gains(ticket.stream);
  if (!pending_queue().push(pending)) {
    stream_loses(ticket.stream);
    pool.give(ticket.event);
    add(health().queue_full, 1);
    return;
  }
  sampled(ticket.record_ns + now_ns() - returned);
}

void count_host_call(const CallInfo& info, uint64_t begin_ns, uint64_t end_ns) {
  wire::Segment& shared = *segment();
  wire::OpEntry& op = shared.ops[find_op(shared, info.key)];
  add(op.calls, 1);
  add(op.work, info.work);
  add(op.timed, 1);
  add(op.timed_work, info.work);
  add(op.timed_ns, end_ns - begin_ns);
  add(op.host_ns, end_ns - begin_ns);
}

}  // namespace xpurun::preload
