#include "preload/nccl_profiler/profiler.h"

#include "common/wire/nccl_profiler.h"
#include "preload/core/clock.h"
#include "preload/core/resolve.h"
#include "preload/core/state.h"
#include "preload/nccl_profiler/abi.h"
#include "preload/nccl_profiler/event_gate.h"
#include "preload/nccl_profiler/records.h"
#include "preload/record/own_cost.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

namespace xpurun::preload {

namespace {

constexpr int kUnknownLocalRanks = 8;  // used if NCCL does not report the number of nodes
// A collective can use fewer channels than NCCL announced. It counts as finished when all started channels
// have ended and no other has started for this long.
constexpr uint64_t kQuietNs = 200 * kNsPerMs;
// A record whose collective finished this long ago will not get times any more.
constexpr uint64_t kLateNs = 2000 * kNsPerMs;
// Tolerated disagreement of times with the host's clock.
constexpr uint64_t kClockNs = kNsPerMs;
// After this many consecutive poller rounds with lost records and without a single time, NCCL reports nothing
// in this process and is not asked again. Rounds are counted instead of records, because a process that was
// stopped for long loses many records in one round.
constexpr uint32_t kSilent = 16;

constinit std::atomic<wire::ProfilerState> g_profiler{wire::ProfilerState::none};
constinit std::atomic<int> g_version{0};
constinit std::atomic<uint32_t> g_losses_in_a_row{0};
constinit std::atomic<uint64_t> g_last_loss{UINT64_MAX};  // number of the round
constinit std::atomic<uint32_t> g_in_use{0};

__thread OwnRecords t_expected;

using GetVersion = int(int*);

int nccl_version() {
  void* get = find_in_library("libnccl.so", "ncclGetVersion");
  if (get == nullptr) {
    get = dlsym(RTLD_DEFAULT, "ncclGetVersion");
    dlerror();
  }
  int version = 0;
  return get != nullptr && reinterpret_cast<GetVersion*>(get)(&version) == 0 ? version : 0;
}

bool shared_memory_is_large_enough(const Communicator& comm) {
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) != 0) {
    return false;
  }
  const int local = comm.nodes > 0 ? (comm.ranks + comm.nodes - 1) / comm.nodes : kUnknownLocalRanks;
  return uint64_t{shm.f_bavail} * shm.f_frsize >= wire::kProfilerShmBytes * static_cast<uint64_t>(local);
}

wire::ProfilerState decide(bool always, int version, const Communicator& comm) {
  if (version < 3) {
    return wire::ProfilerState::no_times;
  }
  if (!always && wire::trouble_of_nccl(nccl_version()) != nullptr) {
    return wire::ProfilerState::known_bad;
  }
  return shared_memory_is_large_enough(comm) ? wire::ProfilerState::ready : wire::ProfilerState::no_memory;
}

const char* behind(const char* text, const char* prefix) {
  const size_t length = strlen(prefix);
  return text != nullptr && strncmp(text, prefix, length) == 0 ? text + length : nullptr;
}

int bits_of(uint64_t set) {
  int count = 0;
  for (; set != 0; set &= set - 1) {
    ++count;
  }
  return count;
}

// Reads the clock for each record, because the thread may be stopped for long between two records.
uint64_t since(uint64_t time) {
  return now_ns() - time;
}

bool has_finished(const Record& record) {
  const uint64_t started = record.started.load(std::memory_order_acquire);
  if (started == 0 || !record.queued.load(std::memory_order_acquire) ||
      record.stopped.load(std::memory_order_acquire) != started) {
    return false;
  }
  return bits_of(started) >= record.how.channels || since(record.last_stop_ns.load()) > kQuietNs;
}

// True if no times will come: by the ledger the GPU has passed the collective, or the communicator is gone.
bool is_late(const Record& record) {
  const wire::CommEntry& comm = segment()->comms[record.expected.comm];
  if (since(record.joined_ns) < kLateNs) {
    return false;
  }
  const auto state = static_cast<wire::CommState>(comm.state.load());
  return comm.done.load() >= record.expected.sequence || state == wire::CommState::aborted ||
         state == wire::CommState::destroyed || state == wire::CommState::failed;
}

// For a record that has_finished().
bool measure(const Record& record, ProfiledCollective* out) {
  const uint64_t now = now_ns();
  const uint64_t begin = record.begin.load();
  const uint64_t end = record.end.load();
  const uint64_t called = record.expected.call_ns;
  if (record.broken.load() || begin == 0 || end < begin || end - begin > now - called + kClockNs) {
    return false;
  }
  const GlobalTimer* timer = record.timer;
  out->expected = record.expected;
  out->how = record.how;
  out->source = timer != nullptr ? wire::Source::nccl_profiler : wire::Source::nccl_profiler_host;
  out->duration_ns = end - begin;
  out->begin_ns = begin + (timer != nullptr ? static_cast<uint64_t>(timer->offset_ns.load()) : 0);
  if (out->begin_ns + kClockNs < called || out->begin_ns > now + kClockNs) {
    return false;  // times of another kernel
  }
  // The alignment of the clocks is off by some us. No work begins before its call.
  out->begin_ns = out->begin_ns < called ? called : out->begin_ns;
  return true;
}

void give_back(Record& record) {
  release(record);
  g_in_use.fetch_sub(1, std::memory_order_relaxed);
}

void lose(Record& record) {
  wire::Health& health = segment()->header.health;
  add(health.profiler_lost, 1);
  const uint64_t round = health.polls.load(std::memory_order_relaxed);
  if (g_last_loss.exchange(round) != round && g_losses_in_a_row.fetch_add(1) + 1 == kSilent) {
    wire::ProfilerState ready = wire::ProfilerState::ready;
    if (g_profiler.compare_exchange_strong(ready, wire::ProfilerState::silent)) {
      set_own_events(0);
    }
  }
  give_back(record);
}

}  // namespace

ProfilerUse profiler_use() {
  switch (g_profiler.load(std::memory_order_relaxed)) {
    case wire::ProfilerState::ready:
      return ProfilerUse::times;
    case wire::ProfilerState::no_times:
      return ProfilerUse::describes;
    default:
      return ProfilerUse::none;
  }
}

void load_profiler(int version, const Communicator& first) {
  if (g_version.load() != 0) {
    return;
  }
  g_version.store(version);
  const char* setting = getenv(wire::kProfilerEnv);
  const char* always = behind(setting, wire::kProfilerAlways);
  const char* users = always != nullptr ? always : behind(setting, wire::kProfilerAuto);
  if (users != nullptr) {
    open_chain(users, version);
  }
  const wire::ProfilerState state = decide(always != nullptr, version, first);
  if (state == wire::ProfilerState::ready) {
    set_own_events(kEventColl | kEventKernelCh);
  } else if (state == wire::ProfilerState::no_times) {
    set_own_events(kEventColl);
  }
  g_profiler.store(state);
}

const OwnRecords& expected_here() {
  return t_expected;
}

uint32_t expect_collective(const Expected& expected) {
  const uint64_t begin = now_ns();
  const bool asked = ask_for_own_events();
  const bool has_room = t_expected.count < OwnRecords::kMost;
  Record* record = asked && has_room ? claim_record(expected, begin) : nullptr;
  if (record == nullptr) {
    add(segment()->header.health.profiler_full, asked ? 1 : 0);
    return kNoRecord;
  }
  g_in_use.fetch_add(1, std::memory_order_relaxed);
  t_expected.add(*record);
  profiled(now_ns() - begin);
  return place_of(*record);
}

void stop_asking_nccl() {
  stop_asking();
}

wire::CollectiveHow take_description(uint32_t place) {
  Record& record = record_at(place);
  const bool came = record.state.load(std::memory_order_acquire) == RecordState::running;
  const wire::CollectiveHow how = came ? record.how : wire::CollectiveHow{};
  t_expected.count = 0;
  give_back(record);
  return how;
}

void expected_are_launched(Launched when) {
  const uint32_t count = t_expected.count;
  t_expected.count = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Record* record = t_expected.at(i);
    if (record == nullptr || record->state.load() != RecordState::expected) {
      continue;
    }
    if (when == Launched::later) {
      set_adrift(*record);
    } else {
      // No kernel was reported: NCCL used copy engines, or the call failed.
      lose(*record);
    }
  }
}

namespace {
// 0: not in a point-to-point group; else times_switched_off() at the start of the group, plus 1.
__thread uint32_t t_point_to_point;
}  // namespace

void point_to_point_begins() {
  const uint32_t now = times_switched_off() + 1;
  if (t_point_to_point != now && g_version.load(std::memory_order_relaxed) != 0) {
    t_point_to_point = now;
    enter_point_to_point();
  }
}

void point_to_point_ends() {
  if (t_point_to_point == times_switched_off() + 1) {
    leave_point_to_point();
  }
  t_point_to_point = 0;
}

bool next_profiled(uint32_t* at, ProfiledCollective* out) {
  if (g_in_use.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  while (*at < kRecords) {
    Record& record = record_at((*at)++);
    const RecordState state = record.state.load(std::memory_order_acquire);
    if (state == RecordState::running && g_profiler.load() != wire::ProfilerState::no_times) {
      const bool finished = has_finished(record);
      if (finished && measure(record, out)) {
        g_losses_in_a_row.store(0);
        give_back(record);
        return true;
      }
      if (finished || is_late(record)) {
        lose(record);
      }
    } else if (state == RecordState::adrift && since(record.expected_ns) > kLateNs * 15) {
      lose(record);
    }
  }
  return false;
}

void keep_profiler_books() {
  wire::ProfilerInfo& info = segment()->header.profiler;
  info.state.store(static_cast<uint32_t>(g_profiler.load()));
  info.version.store(static_cast<uint32_t>(g_version.load()));
  info.chain.store(static_cast<uint32_t>(chain_state()));
  info.chain_version.store(static_cast<uint32_t>(chain_version()));
  if (g_version.load() != 0) {
    refresh_event_masks(is_timing_on() ? OpenGroups::keep : OpenGroups::forget);
  }
}

void forget_profiler() {
  g_profiler.store(wire::ProfilerState::none);
  set_own_events(0);
  forget_asking();
}

}  // namespace xpurun::preload
