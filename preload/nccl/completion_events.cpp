#include "preload/nccl/completion_events.h"

#include "preload/core/clock.h"
#include "preload/cuda/cuda_api.h"
#include "preload/cuda/cuda_env.h"
#include "preload/nccl/group.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/record/counts.h"
#include "preload/record/own_cost.h"
#include "preload/record/sampling.h"
#include "preload/record/step_anchor.h"

namespace xpurun::preload {

namespace {

// Completion events in flight, per communicator.
constinit std::atomic<uint32_t> g_in_flight[wire::kCommSlots] = {};
// Per entry of the ledger: the identity of the communicator that has calls in a graph.
constinit std::atomic<uint64_t> g_in_graphs[wire::kCommSlots] = {};
constinit std::atomic<bool> g_any_in_graphs{false};

// NCCL counts the kernels of a communicator twice, on the GPU and on the host, and looks for a kernel's times
// in the slot of the host's count. Launching a graph with collectives that NCCL was not asked about advances
// only the GPU's count. From then on NCCL's proxy reads stale times or waits forever. So every call in the
// communicator's life must have been seen, and none may have been captured.
bool counts_agree(uint32_t index) {
  const wire::CommEntry& comm = comm_at(index);
  return (comm.flags.load(std::memory_order_relaxed) & wire::kCommMissedCalls) == 0 &&
         g_in_graphs[index].load(std::memory_order_relaxed) != comm.identity.load(std::memory_order_relaxed);
}

// A communicator with no completion event in flight always gets one, so that a stalled collective is always
// visible.
bool is_to_be_marked(uint32_t comm, uint64_t launched) {
  return is_to_be_timed(wire::OpClass::collective) &&
         (g_in_flight[comm].load(std::memory_order_relaxed) == 0 || is_turn_to_mark(launched));
}

// The poller sees a completion event in its next round. That gives a duration only if rounds are short.
bool is_timed_by_queries(const CollectiveTicket& ticket) {
  return streams_share_a_queue() && level() == wire::Level::full && !nccl_times(ticket);
}

}  // namespace

bool nccl_times(const CollectiveTicket& ticket) {
  return profiler_use() == ProfilerUse::times && !is_made_of_sends(api_of(ticket)) &&
         counts_agree(ticket.comm) && load_cuda_api();
}

bool take_sample(CollectiveTicket& ticket) {
  const bool collective = ticket.sequence != 0 && is_to_be_timed(wire::OpClass::collective) &&
                          comm_at(ticket.comm).nranks.load(std::memory_order_relaxed) > 1;
  if (collective) {
    collective_comes(segment()->ops[ticket.op].hash | (uint64_t{ticket.comm} + 1) << 32, coarse_now_ns());
  }
  ticket.first_of_step = collective && is_first_of_step(kCollectiveDue);
  // NCCL does not time messages; events do.
  const bool message = is_point_to_point(api_of(ticket)) && is_to_be_timed(wire::OpClass::collective);
  if (are_all_collectives_timed() && (message || (collective && nccl_times(ticket)))) {
    one_of_all_collectives();
    return true;
  }
  const uint64_t number =
      ticket.sequence != 0 ? ticket.sequence : calls_counted_here(ticket.op) + segment()->ops[ticket.op].hash;
  return ticket.first_of_step || is_turn_to_time(number, wire::OpClass::collective);
}

void note_capture(uint32_t comm) {
  g_in_graphs[comm].store(comm_at(comm).identity.load());
  g_any_in_graphs.store(true, std::memory_order_relaxed);
}

bool collectives_in_graphs() {
  return g_any_in_graphs.load(std::memory_order_relaxed);
}

void record_start(CollectiveTicket& ticket) {
  // Timing events cost overlap if all streams share a hardware queue.
  if (!ticket.sample || streams_share_a_queue() || nccl_times(ticket)) {
    return;
  }
  const uint64_t before = now_ns();
  EventGuard event(ticket.info.stream);
  if (!event.holds()) {
    return;
  }
  ticket.device = event.device();
  if (event.record(EventGuard::Place::start)) {
    ticket.event = event.keep().event;
    ticket.record_ns = now_ns() - before;
  }
}

void record_end(const CollectiveTicket& ticket, bool single, const GroupTarget* group) {
  const bool timed = ticket.event != kNoEvent;
  wire::CommEntry& comm = comm_at(ticket.comm);
  const uint64_t launched = comm.launched.load(std::memory_order_relaxed);
  const uint64_t point_to_point = comm.point_to_point_launched.load(std::memory_order_relaxed);
  if (!timed && !is_to_be_marked(ticket.comm, launched + point_to_point)) {
    return;
  }
  const uint64_t before = now_ns();
  void* stream = ticket.info.stream;
  EventGuard event = timed ? EventGuard({ticket.event, ticket.device}, stream)
                           : EventGuard(stream, EventGuard::Use::progress);
  if (!event.holds() || !event.record(timed ? EventGuard::Place::stop : EventGuard::Place::done)) {
    return;
  }
  Pending pending{};
  pending.call_ns = ticket.call_ns;
  pending.launched_ns = before;
  pending.work = ticket.info.work;
  pending.collective = launched;
  pending.point_to_point = point_to_point;
  pending.op = single && (timed || is_timed_by_queries(ticket)) ? ticket.op : kNoOp;
  pending.comm = ticket.comm;
  pending.sequence = static_cast<uint32_t>(ticket.sequence != 0 ? ticket.sequence : ticket.message);
  pending.how = ticket.how;
  pending.timed = timed;
  pending.first_of_step = ticket.first_of_step;
  if (timed && group != nullptr && group->is_timed_as_a_whole()) {
    pending.op = ticket.op;
    pending.messages = group->messages;
    for (uint32_t i = 0; i < group->messages; ++i) {
      pending.message[i] = group->message[i];
    }
  }
  // Counted first: the poller may see the event before hand_over() returns.
  g_in_flight[ticket.comm].fetch_add(1, std::memory_order_relaxed);
  if (!event.hand_over(pending)) {
    gone_from_flight(ticket.comm);
    return;
  }
  comm.marked.store(launched, std::memory_order_relaxed);
  const uint64_t cost = now_ns() - before;
  timed ? sampled(ticket.record_ns + cost) : marked(cost);
}

void gone_from_flight(uint32_t comm) {
  g_in_flight[comm].fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace xpurun::preload
