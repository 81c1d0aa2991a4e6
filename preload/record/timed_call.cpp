#include "preload/record/timed_call.h"

#include "preload/core/clock.h"
#include "preload/cuda/blas.h"
#include "preload/record/capture.h"
#include "preload/record/op_table.h"
#include "preload/record/own_cost.h"
#include "preload/record/sampling.h"
#include "preload/record/step_anchor.h"

namespace xpurun::preload {

namespace {

void* stream_of(const Counted& call) {
  return call.blas != nullptr ? blas_stream(call.blas) : call.stream;
}

void begin_timing(Ticket& ticket, const Counted& call) {
  const uint64_t before = now_ns();
  ticket.stream = stream_of(call);
  EventGuard event(ticket.stream);
  if (!event.holds() || !event.record(EventGuard::Place::start)) {
    return;
  }
  ticket.event = event.keep();
  ticket.call_ns = now_ns();
  ticket.record_ns = ticket.call_ns - before;
}

}  // namespace

Counted find_entry(const CallInfo& info) {
  return {find_op_again(info.key), info.stream, info.blas, info.work};
}

Turn turn_of(const CallInfo& info, uint32_t op) {
  // Spreads the samples of different operations over the calls of a step.
  const uint64_t shift = op * 0x9e3779b1U >> 8;
  // A copy may run on a stream of its own, long before the work of the step.
  const auto op_class = static_cast<wire::OpClass>(info.key.op_class);
  if (op_class != wire::OpClass::memory && is_to_be_timed(op_class) && is_first_of_step(kWorkDue)) {
    return Turn::first_of_step;
  }
  const uint64_t number = calls_counted_here(op);
  const bool is_turn = is_turn_to_time(number + shift, op_class) ||
                       (is_among_first(number, op_class) && is_to_be_timed(op_class));
  return is_turn ? Turn::time : Turn::count;
}

Ticket begin_call(const Counted& call, Turn turn, uint64_t cost_began_ns) {
  Ticket ticket;
  ticket.op = call.op;
  // A captured call does not run now: its graph is counted at each launch.
  if (a_capture_goes_on() && goes_into_a_graph(stream_of(call))) {
    add(segment()->ops[call.op].captured, 1);
    add(segment()->header.health.captured, 1);
    ticket.op = kNoOp;
    return ticket;
  }
  if (turn != Turn::count) {
    ticket.first_of_step = turn == Turn::first_of_step;
    begin_timing(ticket, call);
  }
  if (cost_began_ns != 0 && ticket.event.event == kNoEvent) {
    ticket.begin_cost_ns = now_ns() - cost_began_ns;
  }
  return ticket;
}

void end_call(const Ticket& ticket, uint64_t work, Outcome outcome) {
  if (ticket.op == kNoOp || !is_timing_on()) {
    return;
  }
  const bool timed = ticket.event.event != kNoEvent;
  const bool succeeded = outcome == Outcome::accepted;
  const bool measured = ticket.begin_cost_ns != 0;
  const uint64_t returned = timed ? now_ns() : measured ? warm_now_ns() : 0;
  if (succeeded) {
    count_call(ticket.op, work);
  }
  if (!timed) {
    if (measured) {
      counted(ticket.begin_cost_ns + now_ns() - returned);
    }
    return;
  }
  EventGuard event(ticket.event, ticket.stream);
  // If the call was refused, or CUDA refuses the record, the guard returns the event to the pool.
  if (!succeeded || !event.record(EventGuard::Place::stop)) {
    return;
  }
  Pending pending{};
  pending.call_ns = ticket.call_ns;
  pending.launched_ns = returned;
  pending.work = work;
  pending.op = ticket.op;
  pending.comm = wire::kNoComm;
  pending.sequence = static_cast<uint32_t>(wire::totals_of(*segment(), ticket.op).calls - 1);
  pending.timed = true;
  pending.first_of_step = ticket.first_of_step;
  if (event.hand_over(pending)) {
    sampled(ticket.record_ns + now_ns() - returned);
  }
}

void count_host_call(const CallInfo& info, uint64_t begin_ns, uint64_t end_ns) {
  wire::Segment& shared = *segment();
  const uint32_t entry = find_op_again(info.key);
  wire::OpEntry& op = shared.ops[entry];
  count_call(entry, info.work);
  add(op.timed, 1);
  add(op.timed_work, info.work);
  add(op.timed_ns, end_ns - begin_ns);
  add(op.host_ns, end_ns - begin_ns);
}

}  // namespace xpurun::preload
