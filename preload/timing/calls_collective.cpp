#include "preload/timing/calls_collective.h"

#include "preload/nccl_profiler/profiler.h"
#include "preload/timing/cuda_api.h"
#include "preload/timing/event_pool.h"
#include "preload/timing/hook.h"
#include "preload/timing/ledger.h"
#include "preload/timing/op_table.h"

#include <stdlib.h>
#include <string.h>

namespace xpurun::preload {

namespace {

constexpr uint32_t kGroupTargets = 32;
constexpr uint32_t kGroupComms = 32;

// Collectives of one communicator and stream in a group: handed to the GPU together when the group ends.
struct GroupTarget {
  CollectiveTicket first;  // the only one, if there is one
  uint64_t collectives;
  uint64_t point_to_point;
};

struct Making {
  uint32_t entry;
  void** place;
};

// A thread's open group. Zero is none.
struct Group {
  uint32_t depth;
  uint32_t times_off;  // times_switched_off() when it was opened
  uint32_t target_count;
  uint32_t making_count;
  GroupTarget target[kGroupTargets];
  Making making[kGroupComms];
};

__thread Group t_group;

// A group that was open when timing went off has ended unseen.
Group& group_here() {
  if (t_group.times_off != times_switched_off()) {
    t_group.depth = 0;
    t_group.target_count = 0;
    t_group.making_count = 0;
    t_group.times_off = times_switched_off();
  }
  return t_group;
}

__thread uint32_t t_making_entry;
__thread uint32_t t_calls;

// Our cost on the calls is measured on one of so many.
constexpr uint32_t kCostEvery = 16;

// By communicator: not known to have been reached.
constinit std::atomic<uint32_t> g_events_on_their_way[wire::kCommSlots] = {};

wire::CommEntry& comm_at(uint32_t index) {
  return segment()->comms[index];
}

bool is_point_to_point(wire::Api api) {
  return api == wire::Api::ncclSend || api == wire::Api::ncclRecv;
}

// ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, fp8 e4m3, fp8
// e5m2
uint64_t size_of(int type) {
  constexpr uint8_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<size_t>(type) < sizeof(kSizes) ? kSizes[type] : 1;
}

// All bytes of the operation, by the conventions of nccl-tests.
uint64_t bytes_of(const Collective& call, int nranks) {
  const uint64_t bytes = call.count * size_of(call.type);
  switch (call.api) {
    case wire::Api::ncclAllGather:
    case wire::Api::ncclReduceScatter:
    case wire::Api::ncclAlltoAll:
    case wire::Api::ncclGather:
    case wire::Api::ncclScatter:
      return bytes * static_cast<uint64_t>(nranks > 0 ? nranks : 1);
    default:
      return bytes;
  }
}

CallInfo describe(const Collective& call, uint32_t comm, int nranks) {
  CallInfo info{};
  info.key.api = static_cast<uint16_t>(call.api);
  info.key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
  info.key.dtype[0] = static_cast<uint8_t>(call.type);
  info.key.compute = static_cast<uint8_t>(call.op);
  info.key.k = static_cast<int64_t>(call.count);
  info.key.comm = comm;
  info.key.peer = call.peer;
  info.work = bytes_of(call, nranks);
  info.stream = call.stream;
  return info;
}

// Whether timing events go around this one. They cost overlap where all streams share a hardware queue. By
// the number on the communicator, so that all its ranks time the same ones.
bool is_its_turn(const CollectiveTicket& ticket) {
  const wire::OpEntry& op = segment()->ops[ticket.op];
  const uint64_t number =
      ticket.sequence != 0 ? ticket.sequence : op.calls.load(std::memory_order_relaxed) + op.hash;
  return is_turn_to_time(number, wire::OpClass::collective);
}

// By communicator: the identity of the one that has calls in a graph.
constinit std::atomic<uint64_t> g_in_graphs[wire::kCommSlots] = {};

// NCCL counts the work of a kernel on the GPU and on the host, and looks for times where the host's count
// says. The host's count stays behind when a graph with collectives that were not asked about is launched;
// then NCCL's proxy finds stale times, or waits for ever. So every call of the communicator's life must have
// been seen, and none captured.
bool counts_agree(uint32_t index) {
  const wire::CommEntry& comm = comm_at(index);
  return (comm.flags.load(std::memory_order_relaxed) & wire::kCommMissedCalls) == 0 &&
         g_in_graphs[index].load(std::memory_order_relaxed) != comm.identity.load(std::memory_order_relaxed);
}

bool is_captured(void* stream) {
  const bool asks = profiler_use() == ProfilerUse::times && load_cuda_api() && !error_is_pending();
  return asks ? is_capturing(stream) : goes_into_a_graph(stream);
}

wire::Api api_of(const CollectiveTicket& ticket) {
  return static_cast<wire::Api>(ticket.info.key.api);
}

bool nccl_times(const CollectiveTicket& ticket) {
  return profiler_use() == ProfilerUse::times && !is_an_exchange(api_of(ticket)) &&
         counts_agree(ticket.comm) && load_cuda_api();
}

// NCCL is asked to time this one, or to say how it carries it out.
void ask_nccl(CollectiveTicket& ticket, const Collective& call) {
  const bool alone = comm_at(ticket.comm).nranks.load(std::memory_order_relaxed) == 1;
  const bool describes = profiler_use() == ProfilerUse::describes && t_group.depth == 0;
  if (is_an_exchange(call.api) || alone || call.count == 0 || !is_its_turn(ticket) ||
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
                          .root = call.peer};
  ticket.record = expect_collective(expected);
}

void record_start(CollectiveTicket& ticket) {
  if (streams_share_a_queue() || nccl_times(ticket) || !is_its_turn(ticket)) {
    return;
  }
  const uint64_t before = now_ns();
  const uint32_t event = take_event(ticket.info.stream, &ticket.device);
  if (event == kNoEvent) {
    return;
  }
  if (cuda_api().event_record(event_pool(ticket.device)->start(event), ticket.info.stream) != 0) {
    forget_cuda_error();
    event_pool(ticket.device)->give(event);
    return;
  }
  ticket.event = event;
  ticket.record_ns = now_ns() - before;
}

// A communicator with no event on its way gets one in any case, so that a collective that stands still is
// seen to do so whatever the period.
bool is_to_be_marked(uint32_t comm, uint64_t launched) {
  return is_to_be_timed(wire::OpClass::collective) &&
         (g_events_on_their_way[comm].load(std::memory_order_relaxed) == 0 || is_turn_to_mark(launched));
}

// Without timing events the end is when the poller looks: of use only where it looks often.
bool is_timed_by_queries(const CollectiveTicket& ticket) {
  return streams_share_a_queue() && level() == wire::Level::full && !nccl_times(ticket);
}

// Marks the place on the stream where the work just launched ends; the poller will tell when it is reached.
void record_end(const CollectiveTicket& ticket, bool single) {
  const bool timed = ticket.event != kNoEvent;
  wire::CommEntry& comm = comm_at(ticket.comm);
  const uint64_t launched = comm.launched.load(std::memory_order_relaxed);
  const uint64_t point_to_point = comm.point_to_point_launched.load(std::memory_order_relaxed);
  if (!timed && !is_to_be_marked(ticket.comm, launched + point_to_point)) {
    return;
  }
  const uint64_t before = now_ns();
  int device = ticket.device;
  const uint32_t event = timed ? ticket.event : take_event(ticket.info.stream, &device);
  if (event == kNoEvent) {
    return;
  }
  EventPool& pool = *event_pool(device);
  if (cuda_api().event_record(timed ? pool.stop(event) : pool.done(event), ticket.info.stream) != 0) {
    forget_cuda_error();
    pool.give(event);
    return;
  }
  Pending pending{};
  pending.stream = ticket.info.stream;
  pending.call_ns = ticket.call_ns;
  pending.launched_ns = before;
  pending.work = ticket.info.work;
  pending.collective = launched;
  pending.point_to_point = point_to_point;
  pending.op = single && (timed || is_timed_by_queries(ticket)) ? ticket.op : kNoOp;
  pending.comm = ticket.comm;
  pending.sequence = static_cast<uint32_t>(ticket.sequence);
  pending.event = event;
  pending.how = ticket.how;
  pending.device = device;
  pending.timed = timed;
  stream_gains(ticket.info.stream);
  g_events_on_their_way[ticket.comm].fetch_add(1, std::memory_order_relaxed);
  if (!pending_queue().push(pending)) {
    stream_loses(ticket.info.stream);
    mark_is_gone(ticket.comm);
    pool.give(event);
    add(segment()->header.health.queue_full, 1);
    return;
  }
  comm.marked.store(launched, std::memory_order_relaxed);
  const uint64_t cost = now_ns() - before;
  timed ? sampled(ticket.record_ns + cost) : marked(cost);
}

void launched(const CollectiveTicket& ticket, uint64_t collectives, uint64_t point_to_point) {
  const uint64_t begin = now_ns();
  collectives_launched(comm_at(ticket.comm), collectives, point_to_point, ticket.info.stream, begin);
  if (ticket.begin_cost_ns != 0) {
    add(segment()->header.health.own_ns, (ticket.begin_cost_ns + now_ns() - begin) * kCostEvery);
  }
  record_end(ticket, collectives + point_to_point == 1);
}

// False if the group is on more communicators and streams than we remember.
bool join_group(const CollectiveTicket& ticket) {
  Group& group = group_here();
  uint32_t at = 0;
  while (at < group.target_count && (group.target[at].first.comm != ticket.comm ||
                                     group.target[at].first.info.stream != ticket.info.stream)) {
    ++at;
  }
  if (at == kGroupTargets) {
    return false;
  }
  GroupTarget& target = group.target[at];
  if (at == group.target_count) {
    ++group.target_count;
    target.first = ticket;
    target.collectives = 0;
    target.point_to_point = 0;
  }
  ++(ticket.sequence != 0 ? target.collectives : target.point_to_point);
  return true;
}

bool is_accepted(int result) {
  return result == 0 || result == kNcclInProgress;
}

void finish_making(uint32_t index, int result, void** place) {
  wire::CommEntry& comm = comm_at(index);
  if (!is_accepted(result)) {
    comm.last_result.store(result);
    comm.state.store(static_cast<uint32_t>(wire::CommState::failed), std::memory_order_release);
    return;
  }
  comm.handle.store(reinterpret_cast<uintptr_t>(*place));
  comm.last_change_ns.store(now_ns());
  comm.state.store(static_cast<uint32_t>(wire::CommState::live), std::memory_order_release);
}

void note_nccl_version() {
  std::atomic<uint32_t>& noted = segment()->header.nccl_version;
  if (noted.load() != 0) {
    return;
  }
  const auto get = reinterpret_cast<NcclVersion*>(find_in_library("libnccl.so", "ncclGetVersion"));
  int version = 0;
  if (get != nullptr && get(&version) == 0) {
    noted.store(static_cast<uint32_t>(version));
  }
}

const char* name_in(const NcclConfig* config) {
  const bool has_name =
      config != nullptr && config->magic == kNcclConfigMagic && config->size >= sizeof(NcclConfig);
  return has_name ? config->comm_name : nullptr;
}

}  // namespace

bool streams_share_a_queue() {
  static const bool shared = [] {
    const char* connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return connections != nullptr && strcmp(connections, "1") == 0;
  }();
  return shared;
}

void mark_is_gone(uint32_t comm) {
  g_events_on_their_way[comm].fetch_sub(1, std::memory_order_relaxed);
}

CollectiveTicket collective_begins(const Collective& call) {
  wire::Segment& shared = *segment();
  const bool measure = ++t_calls % kCostEvery == 0;
  CollectiveTicket ticket{};
  Group& group = group_here();
  if (is_an_exchange(call.api)) {
    point_to_point_begins();
  }
  ticket.event = kNoEvent;
  ticket.record = kNoRecord;
  ticket.device = -1;
  ticket.call_ns = now_ns();
  ticket.comm = comm_of(call.comm);
  if (ticket.comm == wire::kNoComm) {
    return ticket;
  }
  wire::CommEntry& comm = comm_at(ticket.comm);
  ticket.info = describe(call, ticket.comm, comm.nranks.load(std::memory_order_relaxed));
  ticket.op = find_op(shared, ticket.info.key);
  wire::OpEntry& op = shared.ops[ticket.op];
  if (is_captured(call.stream)) {
    g_in_graphs[ticket.comm].store(comm.identity.load());
    add(op.captured, 1);
    add(shared.header.health.captured, 1);
    ticket.comm = wire::kNoComm;
    return ticket;
  }
  if (is_point_to_point(call.api)) {
    point_to_point_called(comm, call.api == wire::Api::ncclSend, ticket.call_ns);
  } else {
    ticket.sequence = collective_called(comm, ticket.info.key, ticket.call_ns);
  }
  add(op.calls, 1);
  add(op.work, ticket.info.work);
  ticket.begin_cost_ns = measure ? now_ns() - ticket.call_ns : 0;
  if (group.depth == 0) {
    record_start(ticket);
  }
  ask_nccl(ticket, call);
  return ticket;
}

Launched launched_when(int result) {
  return result == kNcclInProgress ? Launched::later : Launched::now;
}

void collective_ends(CollectiveTicket& ticket, int result) {
  if (ticket.asked) {
    ask_no_more();
  }
  if (ticket.record != kNoRecord && profiler_use() == ProfilerUse::describes) {
    ticket.how = take_description(ticket.record);
  } else if (ticket.asked && t_group.depth == 0) {
    expected_are_launched(launched_when(result));
  }
  if (ticket.comm == wire::kNoComm || !is_timing_on()) {
    return;
  }
  if (!is_accepted(result)) {
    comm_at(ticket.comm).last_result.store(result);
    if (ticket.event != kNoEvent) {
      event_pool(ticket.device)->give(ticket.event);
    }
    return;
  }
  if (t_group.depth == 0 || !join_group(ticket)) {
    launched(ticket, ticket.sequence != 0 ? 1 : 0, ticket.sequence != 0 ? 0 : 1);
  }
}

void exchange_called() {
  if (t_group.depth == 0) {
    point_to_point_ends();
  }
}

void group_begins() {
  ++group_here().depth;
}

void group_ends() {
  Group& group = group_here();
  // A group of one is a call like any other.
  if (group.depth == 1 && group.target_count == 1 &&
      group.target[0].collectives + group.target[0].point_to_point == 1) {
    record_start(group.target[0].first);
  }
}

void group_ended(int result) {
  Group& group = group_here();
  if (group.depth == 0 || --group.depth > 0) {
    return;
  }
  expected_are_launched(launched_when(result));
  point_to_point_ends();
  if (!is_timing_on()) {
    return;
  }
  for (uint32_t i = 0; i < group.making_count; ++i) {
    finish_making(group.making[i].entry, result, group.making[i].place);
  }
  for (uint32_t i = 0; i < group.target_count; ++i) {
    const GroupTarget& target = group.target[i];
    if (is_accepted(result)) {
      launched(target.first, target.collectives, target.point_to_point);
    } else {
      comm_at(target.first.comm).last_result.store(result);
    }
  }
  group.making_count = 0;
  group.target_count = 0;
}

uint64_t identity_of(const NcclUniqueId* ids, int count) {
  return ids == nullptr ? 0 : hash_bytes(ids, static_cast<uint64_t>(count) * sizeof(NcclUniqueId), 0);
}

void comm_began(uint64_t identity, int rank, int nranks, const NcclConfig* config, uint64_t parent, void**) {
  note_nccl_version();
  t_making_entry = claim_comm(identity, rank, nranks, name_in(config));
  if (t_making_entry != wire::kNoComm) {
    comm_at(t_making_entry).parent.store(parent);
  }
}

void comm_made(int result, void** place) {
  const uint32_t entry = t_making_entry;
  if (entry == wire::kNoComm || !is_timing_on()) {
    return;
  }
  Group& group = group_here();
  // In a group, NCCL may write the handle only at the group's end.
  if (group.depth > 0 && is_accepted(result) && group.making_count < kGroupComms) {
    group.making[group.making_count++] = {entry, place};
    return;
  }
  finish_making(entry, result, place);
}

void comms_made(int result, void** comms, int count) {
  if (!is_accepted(result)) {
    return;
  }
  note_nccl_version();
  const uint64_t identity = mix(reinterpret_cast<uintptr_t>(comms[0]), now_ns());
  for (int i = 0; i < count; ++i) {
    const uint32_t entry = claim_comm(identity, i, count, nullptr);
    if (entry != wire::kNoComm) {
      comm_at(entry).flags.store(wire::kCommLocalIdentity);
      finish_making(entry, 0, &comms[i]);
    }
  }
}

uint64_t split_identity(void* comm, int color) {
  const uint32_t index = comm_of(comm);
  if (index == wire::kNoComm) {
    return 0;
  }
  wire::CommEntry& parent = comm_at(index);
  // Splitting is collective: its number among the parent's splits is the same on every rank.
  const uint32_t number = parent.splits.fetch_add(1);
  return mix(mix(parent.identity.load(), number), static_cast<uint64_t>(static_cast<uint32_t>(color)));
}

void comm_changed(void* comm, wire::CommState state) {
  const uint32_t index = comm_of(comm);
  if (index != wire::kNoComm) {
    comm_at(index).last_change_ns.store(now_ns());
    comm_at(index).state.store(static_cast<uint32_t>(state), std::memory_order_release);
  }
}

void comm_failed(void* comm, int result) {
  if (!is_accepted(result)) {
    const uint32_t index = comm_of(comm);
    if (index != wire::kNoComm) {
      comm_at(index).last_result.store(result);
    }
  }
}

}  // namespace xpurun::preload
