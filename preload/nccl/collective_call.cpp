#include "preload/nccl/collective_call.h"

#include "preload/core/clock.h"
#include "preload/cuda/cuda_api.h"
#include "preload/nccl/comm_life.h"
#include "preload/nccl/completion_events.h"
#include "preload/nccl/group.h"
#include "preload/nccl/ledger.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/record/capture.h"
#include "preload/record/counts.h"
#include "preload/record/op_table.h"
#include "preload/record/own_cost.h"

namespace xpurun::preload {

namespace {

// The cost of this library is measured on one collective in 64.
constexpr uint32_t kCollectiveCostEvery = 64;

__thread uint32_t t_calls;

// If NCCL provides the times, even an unseen capture matters: it breaks NCCL's counts permanently.
bool is_captured(void* stream) {
  const bool asks = profiler_use() == ProfilerUse::times && load_cuda_api() && !error_is_pending();
  return asks ? is_capturing(stream) : goes_into_a_graph(stream);
}

// Asks NCCL to time this collective, or to report how it is carried out.
void ask_nccl(CollectiveTicket& ticket, const Collective& call) {
  // NCCL reports no collective of a single rank or of zero elements, because there is no kernel.
  const bool alone = comm_at(ticket.comm).nranks.load(std::memory_order_relaxed) == 1;
  const bool describes = profiler_use() == ProfilerUse::describes && group_here().depth == 0;
  if (!ticket.sample || is_made_of_sends(call.api) || alone || call.count == 0 ||
      !(describes || nccl_times(ticket))) {
    return;
  }
  ticket.asked = true;
  const Expected expected{.op = ticket.op,
                          .comm = ticket.comm,
                          .sequence = ticket.sequence,
                          .call_ns = ticket.call_ns,
                          .work = ticket.info.work,
                          .stream = call.stream,
                          .send = call.send,
                          .receive = call.receive,
                          .root = call.peer,
                          .first_of_step = ticket.first_of_step};
  ticket.record = expect_collective(expected);
}

void launched(const CollectiveTicket& ticket, uint64_t collectives, uint64_t point_to_point,
              const GroupTarget* group = nullptr) {
  const bool measured = ticket.begin_cost_ns != 0;
  const uint64_t begin = measured ? warm_now_ns() : 0;
  collectives_launched(comm_at(ticket.comm), collectives, point_to_point, ticket.info.stream,
                       coarse_now_ns());
  if (measured) {
    counted(ticket.begin_cost_ns + now_ns() - begin, kCollectiveCostEvery);
  }
  record_end(ticket, collectives + point_to_point == 1, group);
}

// Calls on a non-blocking communicator return at once; one of NCCL's threads carries them out.
Launched launched_when(int result) {
  return result == kNcclInProgress ? Launched::later : Launched::now;
}

}  // namespace

CollectiveTicket collective_begins(const Collective& call) {
  const uint64_t cost_began_ns = ++t_calls % kCollectiveCostEvery == 0 ? warm_now_ns() : 0;
  CollectiveTicket ticket{};
  const Group& group = group_here();
  if (is_made_of_sends(call.api)) {
    point_to_point_begins();
  }
  ticket.event = kNoEvent;
  ticket.record = kNoRecord;
  ticket.device = -1;
  ticket.comm = comm_of(call.comm);
  if (ticket.comm == wire::kNoComm) {
    return ticket;
  }
  wire::CommEntry& comm = comm_at(ticket.comm);
  ticket.info = describe_collective(call, ticket.comm, comm.nranks.load(std::memory_order_relaxed));
  ticket.op = find_op_again(ticket.info.key);
  if (is_captured(call.stream)) {
    note_capture(ticket.comm);
    add(segment()->ops[ticket.op].captured, 1);
    add(segment()->header.health.captured, 1);
    ticket.comm = wire::kNoComm;
    return ticket;
  }
  // The ledger answers which rank waits for which, and the last tick is accurate enough for that.
  const uint64_t now = coarse_now_ns();
  if (is_point_to_point(call.api)) {
    point_to_point_called(comm, call.api == wire::Api::ncclSend, now);
  } else {
    ticket.sequence = collective_called(comm, ticket.info.key, now);
  }
  count_call(ticket.op, ticket.info.work);
  ticket.sample = take_sample(ticket);
  if (ticket.sample && is_point_to_point(call.api)) {
    // NCCL keeps the order of messages, so equal numbers of equal messages are a send and its receive.
    ticket.message = wire::totals_of(*segment(), ticket.op).calls;
  }
  ticket.begin_cost_ns = cost_began_ns != 0 ? now_ns() - cost_began_ns : 0;
  ticket.call_ns = ticket.sample || level() == wire::Level::full ? now_ns() : now;
  if (group.depth == 0) {
    record_start(ticket);
  }
  ask_nccl(ticket, call);
  return ticket;
}

void collective_ends(CollectiveTicket& ticket, int result) {
  const bool is_alone = group_here().depth == 0;
  if (ticket.asked) {
    stop_asking_nccl();
  }
  if (ticket.record != kNoRecord && profiler_use() == ProfilerUse::describes) {
    ticket.how = take_description(ticket.record);
  } else if (ticket.asked && is_alone) {
    expected_are_launched(launched_when(result));
  }
  if (ticket.comm == wire::kNoComm || !is_timing_on()) {
    return;
  }
  if (!is_accepted(result)) {
    comm_at(ticket.comm).last_result.store(result);
    // returns the event to the pool
    const EventGuard unused({ticket.event, ticket.device}, ticket.info.stream);
    return;
  }
  if (is_alone || !group_here().join(ticket)) {
    launched(ticket, ticket.sequence != 0 ? 1 : 0, ticket.sequence != 0 ? 0 : 1);
  }
}

void sends_called() {
  if (group_here().depth == 0) {
    point_to_point_ends();
  }
}

void group_began() {
  ++group_here().depth;
}

void group_ends() {
  // A group with a single call is launched like a call on its own, so its start can be recorded right before
  // the launch. With several calls, one kernel may do the work of all, and no call has a time of its own.
  Group& group = group_here();
  if (CollectiveTicket* only = group.only_call()) {
    record_start(*only);
    return;
  }
  for (uint32_t i = 0; i < group.target_count && group.depth == 1; ++i) {
    if (group.target[i].is_timed_as_a_whole()) {
      record_start(group.target[i].first);
    }
  }
}

void group_ended(int result) {
  Group& group = group_here();
  // Groups nest; NCCL launches the calls of all levels at the outermost end.
  if (group.depth == 0 || --group.depth > 0) {
    return;
  }
  expected_are_launched(launched_when(result));
  point_to_point_ends();
  if (!is_timing_on()) {
    return;
  }
  for (uint32_t i = 0; i < group.comm_count; ++i) {
    comm_finished(group.comm[i].entry, result, group.comm[i].place);
  }
  for (uint32_t i = 0; i < group.target_count; ++i) {
    const GroupTarget& target = group.target[i];
    if (is_accepted(result)) {
      launched(target.first, target.collectives, target.point_to_point, &target);
    } else {
      // returns the event to the pool
      const EventGuard unused({target.first.event, target.first.device}, target.first.info.stream);
      comm_at(target.first.comm).last_result.store(result);
    }
  }
  group.clear();
}

}  // namespace xpurun::preload
