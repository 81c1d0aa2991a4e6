// Records of the collectives that NCCL was asked about, from before the call until the poller has taken the
// result. A fixed pool. NCCL knows a record by a handle that is not an address: the handle holds the record's
// slot in the pool and how often the slot has been used. So a handle that NCCL uses too late, twice, or in a
// forked child finds the right record or none.
#pragma once

#include "common/wire/segment.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

inline constexpr uint32_t kRecords = 1024;
inline constexpr uint32_t kChannels = 64;  // MAXCHANNELS of NCCL

// The caller's description of a collective that is about to be called.
struct Expected {
  uint32_t op;
  uint32_t comm;
  uint64_t sequence;
  uint64_t call_ns;
  uint64_t work;
  void* stream;
  const void* send;
  const void* receive;
  int root;
  bool first_of_step;
};

inline constexpr uint32_t kNoRecord = 0xffffffff;

// The offset between a GPU's globaltimer and the host's clock. NCCL's proxy thread sees the end of a kernel
// shortly after the GPU has written it, so the smallest observed difference is the most accurate. Any thread.
struct GlobalTimer {
  std::atomic<int64_t> offset_ns{0};  // host minus GPU
  std::atomic<uint64_t> at_ns{0};     // host time of that measurement; 0: none yet

  void learn(uint64_t gpu_ns, uint64_t host_ns);
};

enum class RecordState : uint32_t {
  free,
  writing,
  expected,  // the calling thread will launch the collective
  adrift,    // another thread will launch it (non-blocking communicator)
  running,   // NCCL has reported its start
};

struct Record {
  std::atomic<RecordState> state{RecordState::free};
  std::atomic<uint32_t> generation{0};
  Expected expected;
  uint64_t expected_ns;
  // Valid once running. `timer` is nullptr if the times are by the host's clock.
  GlobalTimer* timer;
  wire::CollectiveHow how;
  void* users;  // handle from the program's own plugin
  uint64_t joined_ns;
  // Sets of channels, and their earliest and latest times.
  std::atomic<uint64_t> started;
  std::atomic<uint64_t> stopped;
  std::atomic<uint64_t> begin;
  std::atomic<uint64_t> end;
  std::atomic<uint64_t> last_stop_ns;  // host time
  std::atomic<bool> queued;            // NCCL has reported all channels that it announced
  std::atomic<bool> broken;            // a time is missing
};

// A decoded handle, which this library had given to NCCL.
struct Handle {
  Record* record = nullptr;  // nullptr: another plugin's handle, or outdated
  int channel = -1;          // -1: the collective itself
  bool ours = false;
};
// Encodes a handle for NCCL, and decodes any handle that NCCL passes back.
void* handle_of(const Record& record, int channel);
Handle look_up(void* handle);
uint32_t place_of(const Record& record);

// nullptr if the pool is full.
Record* claim_record(const Expected& expected, uint64_t now);
Record& record_at(uint32_t index);
// Frees the slot. Outdated handles of the record find nothing.
void release(Record& record);

// The call has returned, and another thread will launch the collective.
void set_adrift(Record& record);

// The records that a thread has claimed for collectives and not yet launched.
struct OwnRecords {
  static constexpr uint32_t kMost = 32;
  struct Item {
    uint32_t place;
    uint32_t generation;
  };
  uint32_t count;
  Item item[kMost];

  void add(const Record& record);
  // nullptr if the slot has been reused since.
  Record* at(uint32_t index) const;
};

// Finds the record of a collective by its buffers and makes it running: first among the thread's own records,
// then among those adrift; on one of NCCL's threads, among all. nullptr: none.
Record* join(const OwnRecords& own, const void* send, const void* receive, int root);

void channel_began(Record& record, int channel, uint64_t time);
// `time` 0: unknown.
void channel_ended(Record& record, int channel, uint64_t time, uint64_t now);

// Handles from the program's own plugin for the channels of a record.
void*& users_channel(const Record& record, int channel);

}  // namespace xpurun::preload
