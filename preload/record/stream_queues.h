// Work in flight by stream, in the order of launch. Each stream is polled by its own oldest item, so that a
// stalled stream hides no other. All zero means empty. Poller's thread only.
#pragma once

#include "preload/record/pending.h"

namespace xpurun::preload {

class StreamQueues {
 public:
  static constexpr uint32_t kStreams = 128;
  static constexpr uint32_t kItems = 8192;

  struct Stream {
    void* handle;
    int32_t device;
    uint32_t first;  // slot of the oldest item, from 1; 0: the queue is empty
    uint32_t last;
    uint64_t last_end_ns;  // observed end of the previous work on it
  };

  constexpr StreamQueues() = default;
  StreamQueues(const StreamQueues&) = delete;
  StreamQueues& operator=(const StreamQueues&) = delete;

  // False if there is no room.
  bool push(const Pending& item);
  bool empty() const { return items_ == 0; }

  uint32_t count() const { return count_; }
  Stream& stream(uint32_t number) { return streams_[number]; }
  // The oldest; nullptr if the stream has none.
  const Pending* front(const Stream& stream) const;
  // The item with this number, from 1 for the oldest; if there are fewer, the newest, and `number` is set to
  // its number.
  const Pending* ahead(const Stream& stream, uint32_t* number) const;
  // False if items of the queue may finish in another order: it holds the work of several streams, or of
  // cudaStreamPerThread, which is a different stream in each thread.
  bool is_in_order(const Stream& stream) const;
  void pop(Stream& stream);
  uint32_t number_of(void* handle, int32_t device);

 private:
  uint32_t free_place();

  Stream streams_[kStreams] = {};
  uint32_t count_ = 0;
  Pending item_[kItems + 1] = {};
  uint32_t next_[kItems + 1] = {};
  uint32_t free_ = 0;   // first of the free slots
  uint32_t fresh_ = 0;  // slots used so far
  uint32_t items_ = 0;
};

}  // namespace xpurun::preload
