#include "preload/record/pending.h"

namespace xpurun::preload {

namespace {
constinit PendingQueue g_queue;
}

PendingQueue& pending_queue() {
  return g_queue;
}

// Dmitry Vyukov's bounded queue: a producer owns the cell once it has advanced the tail, and publishes the
// item through the cell's turn.
bool PendingQueue::push(const Pending& item) {
  uint64_t at = tail_.load(std::memory_order_relaxed);
  for (;;) {
    Cell& cell = cells_[at % kCells];
    const uint64_t turn = cell.turn.load(std::memory_order_acquire);
    const uint64_t expected = at / kCells * 2;
    if (turn == expected) {
      if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        cell.item = item;
        cell.turn.store(expected + 1, std::memory_order_release);
        return true;
      }
    } else if (turn < expected) {
      return false;
    } else {
      at = tail_.load(std::memory_order_relaxed);
    }
  }
}

bool PendingQueue::pop(Pending* item) {
  Cell& cell = cells_[head_ % kCells];
  const uint64_t full = head_ / kCells * 2 + 1;
  if (cell.turn.load(std::memory_order_acquire) != full) {
    return false;
  }
  *item = cell.item;
  cell.turn.store(full + 1, std::memory_order_release);
  ++head_;
  return true;
}

}  // namespace xpurun::preload
