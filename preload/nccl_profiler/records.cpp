#include "preload/nccl_profiler/records.h"

#include "preload/core/state.h"

#include <initializer_list>
#include <string.h>

namespace xpurun::preload {

namespace {

// Slots tried for a free one. Slots are freed in about the order in which they were taken, so a few tries
// suffice.
constexpr uint32_t kTries = 16;
// 63..48 kTag, 47..24 generation, 23..8 slot, 7..0 channel + 1.
constexpr uint64_t kTag = 0x5850;
constexpr uint32_t kGenerations = 1u << 24;
// The clocks drift by at most one part in this many.
constexpr int64_t kDrift = 10000;

constinit Record g_records[kRecords] = {};
constinit std::atomic<uint32_t> g_next{0};
constinit std::atomic<uint32_t> g_adrift{0};
void* g_users_channels[kRecords][kChannels] = {};

bool matches(const Record& record, const void* send, const void* receive, int root) {
  const Expected& e = record.expected;
  return e.send == send && e.receive == receive && (e.root < 0 || e.root == root);
}

Record* run(Record& record, RecordState from) {
  return record.state.compare_exchange_strong(from, RecordState::running) ? &record : nullptr;
}

template <typename Compare>
void replace(std::atomic<uint64_t>& kept, uint64_t value, Compare is_better) {
  uint64_t now = kept.load(std::memory_order_relaxed);
  while ((now == 0 || is_better(value, now)) && !kept.compare_exchange_weak(now, value)) {
  }
}

}  // namespace

void GlobalTimer::learn(uint64_t gpu_ns, uint64_t host_ns) {
  const auto seen = static_cast<int64_t>(host_ns - gpu_ns);
  const uint64_t at = at_ns.load(std::memory_order_relaxed);
  // The clocks may have drifted apart since the smallest difference was seen.
  const int64_t allowed =
      offset_ns.load(std::memory_order_relaxed) + static_cast<int64_t>(host_ns - at) / kDrift;
  if (at == 0 || seen < allowed) {
    offset_ns.store(seen, std::memory_order_relaxed);
    at_ns.store(host_ns, std::memory_order_relaxed);
  }
}

uint32_t place_of(const Record& record) {
  return static_cast<uint32_t>(&record - g_records);
}

void* handle_of(const Record& record, int channel) {
  const uint64_t generation = record.generation.load(std::memory_order_relaxed) % kGenerations;
  const uint64_t bits = kTag << 48 | generation << 24 | uint64_t{place_of(record)} << 8 |
                        static_cast<uint64_t>(static_cast<uint32_t>(channel + 1));
  void* handle = nullptr;
  memcpy(&handle, &bits, sizeof(handle));
  return handle;
}

Handle look_up(void* handle) {
  const auto bits = reinterpret_cast<uint64_t>(handle);
  if (bits >> 48 != kTag) {
    return {};
  }
  Handle out;
  out.ours = true;
  const uint64_t place = bits >> 8 & 0xffff;
  out.channel = static_cast<int>(bits & 0xff) - 1;
  if (place >= kRecords || out.channel >= static_cast<int>(kChannels)) {
    return out;
  }
  Record& record = g_records[place];
  if (record.generation.load(std::memory_order_acquire) % kGenerations == (bits >> 24) % kGenerations &&
      record.state.load(std::memory_order_acquire) == RecordState::running) {
    out.record = &record;
  }
  return out;
}

Record& record_at(uint32_t index) {
  return g_records[index];
}

Record* claim_record(const Expected& expected, uint64_t now) {
  const uint32_t begin = g_next.fetch_add(1, std::memory_order_relaxed);
  for (uint32_t i = 0; i < kTries; ++i) {
    Record& record = g_records[(begin + i) % kRecords];
    RecordState free = RecordState::free;
    if (!record.state.compare_exchange_strong(free, RecordState::writing)) {
      continue;
    }
    record.generation.fetch_add(1);
    record.expected = expected;
    record.expected_ns = now;
    record.joined_ns = now;
    record.timer = nullptr;
    record.how = {};
    record.users = nullptr;
    for (std::atomic<uint64_t>* number :
         {&record.started, &record.stopped, &record.begin, &record.end, &record.last_stop_ns}) {
      number->store(0, std::memory_order_relaxed);
    }
    record.queued.store(false, std::memory_order_relaxed);
    record.broken.store(false, std::memory_order_relaxed);
    record.state.store(RecordState::expected, std::memory_order_release);
    return &record;
  }
  return nullptr;
}

void release(Record& record) {
  if (record.state.load() == RecordState::adrift) {
    g_adrift.fetch_sub(1);
  }
  // From here on, a handle of this record finds nothing, even before the slot is reused.
  record.generation.fetch_add(1);
  record.state.store(RecordState::free, std::memory_order_release);
}

void OwnRecords::add(const Record& record) {
  item[count++] = {place_of(record), record.generation.load(std::memory_order_relaxed)};
}

Record* OwnRecords::at(uint32_t index) const {
  Record& record = g_records[item[index].place];
  return record.generation.load(std::memory_order_acquire) == item[index].generation ? &record : nullptr;
}

Record* join(const OwnRecords& own, const void* send, const void* receive, int root) {
  for (uint32_t i = 0; i < own.count; ++i) {
    Record* record = own.at(i);
    if (record != nullptr && record->state.load() == RecordState::expected &&
        matches(*record, send, receive, root)) {
      if (Record* joined = run(*record, RecordState::expected)) {
        return joined;
      }
    }
  }
  // One of NCCL's threads may launch the collective before the call that announced it has returned, while the
  // calling thread still owns the record.
  const bool is_nccls = t_thread.inside == 0;
  for (uint32_t at = 0; (is_nccls || g_adrift.load(std::memory_order_relaxed) > 0) && at < kRecords; ++at) {
    Record& record = g_records[at];
    const RecordState state = record.state.load(std::memory_order_acquire);
    const bool in_question = state == RecordState::adrift || (is_nccls && state == RecordState::expected);
    if (!in_question || !matches(record, send, receive, root)) {
      continue;
    }
    if (is_nccls && run(record, RecordState::expected) != nullptr) {
      return &record;
    }
    if (run(record, RecordState::adrift) != nullptr) {
      g_adrift.fetch_sub(1);
      return &record;
    }
  }
  return nullptr;
}

void set_adrift(Record& record) {
  RecordState expected = RecordState::expected;
  // Counted before the state changes, because join() skips its search while the count is 0.
  g_adrift.fetch_add(1);
  if (!record.state.compare_exchange_strong(expected, RecordState::adrift)) {
    g_adrift.fetch_sub(1);
  }
}

void channel_began(Record& record, int channel, uint64_t time) {
  const uint64_t bit = uint64_t{1} << channel;
  if (time == 0) {
    record.broken.store(true);
  } else {
    replace(record.begin, time, [](uint64_t a, uint64_t b) { return a < b; });
  }
  // After the time: a reader that sees the bit must also see the time.
  record.started.fetch_or(bit, std::memory_order_release);
}

void channel_ended(Record& record, int channel, uint64_t time, uint64_t now) {
  const uint64_t bit = uint64_t{1} << channel;
  // NCCL reports the end of a channel twice from version 4 on: as a state with the GPU's time, then as a
  // stop.
  if ((record.stopped.load() & bit) != 0) {
    return;
  }
  if (time == 0) {
    record.broken.store(true);
  } else {
    replace(record.end, time, [](uint64_t a, uint64_t b) { return a > b; });
  }
  record.last_stop_ns.store(now);
  record.stopped.fetch_or(bit, std::memory_order_release);
}

void*& users_channel(const Record& record, int channel) {
  return g_users_channels[place_of(record)][channel];
}

}  // namespace xpurun::preload
