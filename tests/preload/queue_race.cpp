// The queue between the program's threads and the poller, the pool of events and the ring between poller and
// supervisor, concurrently under ThreadSanitizer: every item comes out once and in order.
#include "common/wire/segment.h"
#include "preload/core/state.h"
#include "preload/record/op_table.h"
#include "preload/record/pending.h"

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace xpurun::preload {
constinit State g_state;
}  // namespace xpurun::preload

using namespace xpurun;

namespace {

constexpr uint32_t kThreads = 4;
constexpr uint32_t kEach = 20'000;

bool ring_push(wire::Segment& shared, uint32_t value) {
  wire::SegmentHeader& h = shared.header;
  const uint64_t head = h.ring_head.load(std::memory_order_relaxed);
  if (head - h.ring_tail.load(std::memory_order_acquire) >= wire::kRingSlots) {
    return false;
  }
  wire::Event event{};
  event.sequence = value;
  shared.ring[head % wire::kRingSlots] = event;
  h.ring_head.store(head + 1, std::memory_order_release);
  return true;
}

uint64_t drain(wire::Segment& shared, uint32_t (&next)[kThreads]) {
  wire::SegmentHeader& h = shared.header;
  const uint64_t head = h.ring_head.load(std::memory_order_acquire);
  uint64_t tail = h.ring_tail.load(std::memory_order_relaxed);
  uint64_t wrong = 0;
  for (; tail != head; ++tail) {
    const uint32_t value = shared.ring[tail % wire::kRingSlots].sequence;
    wrong += next[value / kEach]++ != value % kEach ? 1 : 0;
  }
  h.ring_tail.store(tail, std::memory_order_release);
  return wrong;
}

}  // namespace

int main() {
  auto shared = std::make_unique<wire::Segment>();
  auto queue = std::make_unique<preload::PendingQueue>();
  std::atomic<bool> polled{false};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach; ++i) {
        wire::OpKey key{};
        key.m = i % 100;
        preload::add(shared->ops[preload::find_op(*shared, key)].calls, 1);
        preload::Pending item{};
        item.op = t * kEach + i;
        while (!queue->push(item)) {
          std::this_thread::yield();
        }
      }
    });
  }
  std::thread poller([&] {
    preload::Pending item{};
    for (uint32_t n = 0; n < kThreads * kEach;) {
      if (!queue->pop(&item)) {
        std::this_thread::yield();
        continue;
      }
      ++n;
      while (!ring_push(*shared, item.op)) {
        std::this_thread::yield();
      }
    }
    polled.store(true);
  });
  uint32_t next[kThreads] = {};
  uint64_t wrong = 0;
  while (!polled.load()) {
    wrong += drain(*shared, next);
  }
  wrong += drain(*shared, next);
  for (std::thread& thread : threads) {
    thread.join();
  }
  poller.join();
  uint64_t calls = 0;
  for (const wire::OpEntry& op : shared->ops) {
    calls += op.calls.load();
  }
  uint64_t missing = 0;
  for (const uint32_t n : next) {
    missing += kEach - n;
  }
  std::printf("%lu out of order, %lu missing, %lu calls\n", wrong, missing, calls);
  return wrong == 0 && missing == 0 && calls == uint64_t{kThreads} * kEach ? 0 : 1;
}
