// The plugin that NCCL loads: the exported tables ncclProfiler_v1 to ncclProfiler_v6. NCCL calls them from
// the program's threads and from its proxy thread at the same time. The functions never fail, in any order of
// calls.

#include "preload/core/clock.h"
#include "preload/nccl_profiler/abi.h"
#include "preload/nccl_profiler/chain.h"
#include "preload/nccl_profiler/event_gate.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/nccl_profiler/records.h"

#include <pthread.h>
#include <strings.h>

namespace xpurun::preload {

namespace {

// A communicator known to NCCL: NCCL keeps a pointer to the context until it calls finalize.
struct Context {
  std::atomic<bool> taken{false};
  void* users = nullptr;
  bool has_users = false;
  GlobalTimer timer;
};

constexpr uint32_t kContexts = 512;
Context g_contexts[kContexts];
// The context of all communicators beyond kContexts; their events are dropped.
Context g_no_room;
uint32_t g_open = 0;  // guarded by g_mutex
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;

Context& take_context() {
  for (Context& context : g_contexts) {
    bool taken = false;
    if (context.taken.compare_exchange_strong(taken, true)) {
      context.users = nullptr;
      context.has_users = false;
      context.timer.at_ns = 0;
      return context;
    }
  }
  return g_no_room;
}

int begin(int version, void** out, int* mask, const Communicator& comm) {
  pthread_mutex_lock(&g_mutex);
  Context& context = take_context();
  *out = &context;
  ++g_open;
  load_profiler(version, comm);
  int result = 0;
  if (has_chain() && &context != &g_no_room) {
    result = chain_init(&context.users, comm);
    context.has_users = result == 0;
  }
  if (result != 0) {
    // The user's plugin has refused, so NCCL continues without a profiler, as it would without xpurun.
    context.taken = false;
    --g_open;
  } else {
    add_event_mask(mask);
  }
  pthread_mutex_unlock(&g_mutex);
  return result;
}

template <int kVersion>
int init_v1(void** context, int* mask) {
  return begin(kVersion, context, mask, {0, nullptr, 0, 0, -1, nullptr});
}

int init_v4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
            NcclLogger* log) {
  return begin(4, context, mask, {hash, name, nodes, ranks, rank, log});
}

template <int kVersion>
int init_v5(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
            NcclLogger* log) {
  return begin(kVersion, context, mask, {hash, name, nodes, ranks, rank, log});
}

int finalize(void* given) {
  auto& context = *static_cast<Context*>(given);
  pthread_mutex_lock(&g_mutex);
  const int result = context.has_users ? chain_finalize(context.users) : 0;
  // Records may still point to the context's timer: contexts are never freed, only reused.
  context.taken = false;
  if (g_open > 0 && --g_open == 0) {
    forget_event_masks();
  }
  pthread_mutex_unlock(&g_mutex);
  return result;
}

struct Names {
  const char* name;
  uint8_t value;
};

template <size_t kSize>
uint8_t value_of(const Names (&names)[kSize], const char* name) {
  for (const Names& known : names) {
    if (name != nullptr && strcasecmp(known.name, name) == 0) {
      return known.value;
    }
  }
  return 0;
}

uint8_t algorithm_of(const char* name) {
  static constexpr Names kNames[] = {
      {"TREE", 1},      {"RING", 2}, {"COLLNET_DIRECT", 3}, {"COLLNET_CHAIN", 4}, {"NVLS", 5},
      {"NVLS_TREE", 6}, {"PAT", 7}};
  return value_of(kNames, name);
}

uint8_t protocol_of(const char* name) {
  static constexpr Names kNames[] = {{"LL", 1}, {"LL128", 2}, {"SIMPLE", 3}};
  return value_of(kNames, name);
}

struct Described {
  const void* send;
  const void* receive;
  int root;
  wire::CollectiveHow how;
};

template <typename Coll>
Described describe(const void* descriptor) {
  const auto& coll = *static_cast<const Coll*>(descriptor);
  return {coll.send,
          coll.receive,
          coll.root,
          {algorithm_of(coll.algorithm), protocol_of(coll.protocol), coll.channels}};
}

// Version 1 has NCCL's numbers instead of names. The wire format's numbers are higher by one, because 0 means
// unknown.
template <>
Described describe<CollV1>(const void* descriptor) {
  const auto& coll = *static_cast<const CollV1*>(descriptor);
  return {coll.send,
          coll.receive,
          coll.root,
          {static_cast<uint8_t>(coll.algorithm < 7 ? coll.algorithm + 1 : 0),
           static_cast<uint8_t>(coll.protocol < 3 ? coll.protocol + 1 : 0), coll.channels}};
}

Described describe(int version, const void* descriptor) {
  switch (version) {
    case 1:
      return describe<CollV1>(descriptor);
    case 2:
      return describe<CollV2>(descriptor);
    case 3:
      return describe<CollV3>(descriptor);
    default:
      return describe<CollV5>(descriptor);
  }
}

Record* start_collective(int version, Context& context, const void* descriptor) {
  if (own_events() == 0) {
    return nullptr;
  }
  const Described described = describe(version, descriptor);
  Record* record = join(expected_here(), described.send, described.receive, described.root);
  if (record != nullptr) {
    record->how = described.how;
    record->timer = version >= 4 ? &context.timer : nullptr;
    record->joined_ns = now_ns();
  }
  return record;
}

Record* start_channel(int version, const Handle& parent, const void* descriptor, int* channel) {
  const auto& kernel = *static_cast<const KernelChV4*>(descriptor);
  *channel = kernel.channel;
  if (parent.record == nullptr || parent.channel >= 0 || kernel.channel >= kChannels) {
    return nullptr;
  }
  channel_began(*parent.record, *channel, version >= 4 ? kernel.timer : now_ns());
  return parent.record;
}

// The user's plugin's own handle of the parent event.
void* users_parent(void* given, const Handle& parent) {
  if (!parent.ours) {
    return given;
  }
  if (parent.record == nullptr) {
    return nullptr;
  }
  return parent.channel < 0 ? parent.record->users : users_channel(*parent.record, parent.channel);
}

template <int kVersion>
int start(void* given, void** handle, void* descriptor) {
  *handle = nullptr;
  auto& context = *static_cast<Context*>(given);
  const auto& head = *static_cast<const EventHead*>(descriptor);
  // Up to version 4 the type has one byte, and the bytes after it are undefined.
  const int type = static_cast<int>(kVersion >= 5 ? head.type : head.type & 0xff);
  const Handle parent = look_up(head.parent);
  void* users = nullptr;
  int result = 0;
  if (context.has_users && chain_wants(type)) {
    void* const their_parent = users_parent(head.parent, parent);
    if (!parent.ours || their_parent != nullptr) {
      result = chain_start(context.users, &users, descriptor, their_parent);
    }
  }
  Record* record = nullptr;
  int channel = -1;
  if (type == kEventColl) {
    record = start_collective(kVersion, context, descriptor);
  } else if (type == kEventKernelCh) {
    record = start_channel(kVersion, parent, descriptor, &channel);
  }
  if (record == nullptr) {
    *handle = users;
    return result;
  }
  if (channel < 0) {
    record->users = users;
  } else {
    users_channel(*record, channel) = users;
  }
  *handle = handle_of(*record, channel);
  return result;
}

void* users_handle(const Handle& handle) {
  return handle.channel < 0 ? handle.record->users : users_channel(*handle.record, handle.channel);
}

template <int kVersion>
int stop(void* given) {
  const Handle handle = look_up(given);
  if (!handle.ours) {
    return given != nullptr && has_chain() ? chain_stop(given) : 0;
  }
  if (handle.record == nullptr) {
    // An outdated handle: the poller has given up the record before NCCL's proxy thread stopped the event.
    return 0;
  }
  Record& record = *handle.record;
  void* const users = users_handle(handle);
  const int result = users != nullptr ? chain_stop(users) : 0;
  if (handle.channel < 0) {
    // NCCL stops the event of a collective when its work is queued, not when the work is done.
    record.queued.store(true, std::memory_order_release);
  } else {
    const uint64_t now = now_ns();
    channel_ended(record, handle.channel, kVersion >= 4 ? 0 : now, now);
  }
  return result;
}

template <int kVersion>
int record_state(void* given, int state, void* arguments) {
  const Handle handle = look_up(given);
  if (!handle.ours) {
    return given != nullptr && has_chain() ? chain_record(given, state, arguments) : 0;
  }
  if (handle.record == nullptr) {
    return 0;
  }
  void* const users = users_handle(handle);
  const int result = users != nullptr ? chain_record(users, state, arguments) : 0;
  if (kVersion >= 4 && handle.channel >= 0 && state == kStateKernelChStop && arguments != nullptr) {
    Record& record = *handle.record;
    const uint64_t timer = static_cast<const KernelChStop*>(arguments)->timer;
    const uint64_t now = now_ns();
    if (timer != 0 && record.timer != nullptr) {
      record.timer->learn(timer, now);
    }
    channel_ended(record, handle.channel, timer, now);
  }
  return result;
}

}  // namespace
}  // namespace xpurun::preload

namespace xp = xpurun::preload;

extern "C" {
#define XPURUN_EXPORT __attribute__((visibility("default"))) extern
XPURUN_EXPORT const xp::ProfilerTableV1 ncclProfiler_v1;
XPURUN_EXPORT const xp::ProfilerTableV1 ncclProfiler_v2;
XPURUN_EXPORT const xp::ProfilerTableV1 ncclProfiler_v3;
XPURUN_EXPORT const xp::ProfilerTableV4 ncclProfiler_v4;
XPURUN_EXPORT const xp::ProfilerTableV5 ncclProfiler_v5;
XPURUN_EXPORT const xp::ProfilerTableV5 ncclProfiler_v6;

#define XPURUN_TABLE(version, init_function)                                                       \
  {                                                                                                \
    "xpurun", xp::init_function, xp::start<version>, xp::stop<version>, xp::record_state<version>, \
        xp::finalize                                                                               \
  }
const xp::ProfilerTableV1 ncclProfiler_v1 = XPURUN_TABLE(1, init_v1<1>);
const xp::ProfilerTableV1 ncclProfiler_v2 = XPURUN_TABLE(2, init_v1<2>);
const xp::ProfilerTableV1 ncclProfiler_v3 = XPURUN_TABLE(3, init_v1<3>);
const xp::ProfilerTableV4 ncclProfiler_v4 = XPURUN_TABLE(4, init_v4);
const xp::ProfilerTableV5 ncclProfiler_v5 = XPURUN_TABLE(5, init_v5<5>);
const xp::ProfilerTableV5 ncclProfiler_v6 = XPURUN_TABLE(6, init_v5<6>);
}
