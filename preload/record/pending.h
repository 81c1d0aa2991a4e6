// Launched work from the calling threads to the poller: a bounded lock-free queue for many producers and one
// consumer.
#pragma once

#include "common/wire/segment.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

// A send or receive of a group that is timed as a whole.
struct GroupMessage {
  uint32_t op;
  uint32_t number;  // among equal messages, from 1
};

struct Pending {
  static constexpr uint32_t kMessages = 4;

  void* stream;
  uint64_t call_ns;
  uint64_t launched_ns;
  uint64_t work;
  uint64_t collective;      // number of `comm`'s collectives that are done when this work is done
  uint64_t point_to_point;  // the same for point-to-point calls
  uint32_t op;              // kNoOp: nothing to time
  uint32_t comm;            // wire::kNoComm if none
  uint32_t sequence;
  uint32_t event;  // index in the pool of `device`
  int32_t device;
  wire::CollectiveHow how;  // zero unless NCCL has reported it
  bool timed;               // start and stop events are recorded; else one completion event
  bool first_of_step;       // wire::kEventFirstOfStep
  uint32_t messages;        // of the group; 0: `op` is what is timed
  GroupMessage message[kMessages];
};

inline constexpr uint32_t kNoOp = 0xffffffff;

class PendingQueue {
 public:
  static constexpr uint32_t kCells = 4096;  // a power of two

  // Any thread. False if the queue is full: the poller is kCells items behind.
  bool push(const Pending& item);
  // Consumer thread only.
  bool pop(Pending* item);

 private:
  struct Cell {
    // Twice the number of times that the cell was filled and emptied, plus one while it is full.
    std::atomic<uint64_t> turn{0};
    Pending item{};
  };

  Cell cells_[kCells];
  alignas(64) std::atomic<uint64_t> tail_{0};
  alignas(64) uint64_t head_ = 0;
};

PendingQueue& pending_queue();

}  // namespace xpurun::preload
