// The collectives that NCCL was asked about, from before the call until the poller has taken what became of
// them. A fixed pool. NCCL knows a record by a handle that is no address: it names the record's place and how
// often the place has been used, so that whatever NCCL does with a handle later, or in another process, finds
// the right record or none.
#pragma once

#include "preload/nccl_profiler/profiler.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

inline constexpr uint32_t kRecords = 1024;
inline constexpr uint32_t kChannels = 64;  // MAXCHANNELS of NCCL

// Ties a GPU's clock to the host's: NCCL's proxy thread sees the end of a kernel soon after it. Any thread.
struct GlobalTimer {
  std::atomic<int64_t> offset_ns{0};  // host less GPU
  std::atomic<uint64_t> at_ns{0};     // when that was learned; 0: never

  void learn(uint64_t gpu_ns, uint64_t host_ns);
};

enum class RecordState : uint32_t {
  free,
  writing,
  expected,  // by the thread that calls
  adrift,    // by whatever thread carries the call out
  running,   // NCCL has begun with it
};

struct Record {
  std::atomic<RecordState> state{RecordState::free};
  std::atomic<uint32_t> generation{0};
  Expected expected;
  uint64_t expected_ns;
  // Once running. `timer` is nullptr if times are the host's.
  GlobalTimer* timer;
  wire::CollectiveHow how;
  void* users;  // handle of the program's own plugin
  uint64_t joined_ns;
  // By channel.
  std::atomic<uint64_t> started;
  std::atomic<uint64_t> stopped;
  std::atomic<uint64_t> begin;
  std::atomic<uint64_t> end;
  std::atomic<uint64_t> last_stop_ns;  // of the host
  std::atomic<bool> queued;            // NCCL has told all about the collective itself
  std::atomic<bool> broken;            // a time was missing
};

// A handle of ours, taken apart.
struct Handle {
  Record* record = nullptr;  // nullptr: not ours, or no more
  int channel = -1;          // -1: the collective itself
  bool ours = false;
};
void* handle_of(const Record& record, int channel);
Handle look_up(void* handle);
uint32_t place_of(const Record& record);

// nullptr if the pool is full.
Record* claim_record(const Expected& expected, uint64_t now);
Record& record_at(uint32_t index);
void release(Record& record);

// Its call has returned, and another thread will carry it out.
void set_adrift(Record& record);

// Records that a thread has claimed and whose collectives are not launched yet.
struct OwnRecords {
  static constexpr uint32_t kMost = 32;
  struct Item {
    uint32_t place;
    uint32_t generation;
  };
  uint32_t count;
  Item item[kMost];

  void add(const Record& record);
  // nullptr if the place is in use for something else by now.
  Record* at(uint32_t index) const;
};

// The one that a call with these buffers has made, first of the thread's own, then of those adrift, on a
// thread of NCCL's of all; now running. nullptr: none.
Record* join(const OwnRecords& own, const void* send, const void* receive, int root);

void channel_began(Record& record, int channel, uint64_t time);
// `time` 0: unknown.
void channel_ended(Record& record, int channel, uint64_t time, uint64_t now);

// Handles of the program's own plugin for the channels of a record.
void*& users_channel(const Record& record, int channel);

}  // namespace xpurun::preload
