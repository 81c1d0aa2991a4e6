// Counting by thread: exact for more threads than there are places, for threads that follow others, and at
// any moment for a reader.
#include "preload/record/counts.h"

#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>

namespace xpurun::preload {
constinit State g_state;
__thread ThreadState t_thread = {};
}  // namespace xpurun::preload

namespace {

using namespace xpurun;

constexpr uint32_t kThreads = wire::kThreadSlots + 9;
constexpr uint64_t kCalls = 20'000;
constexpr uint32_t kOp = 17;

pthread_barrier_t g_all_count;
int g_wrong = 0;

void expect(const char* what, uint64_t found, uint64_t wanted) {
  if (found != wanted) {
    std::printf("WRONG %s: %llu, not %llu\n", what, static_cast<unsigned long long>(found),
                static_cast<unsigned long long>(wanted));
    ++g_wrong;
  }
}

void* count(void* first) {
  for (uint64_t i = 0; i < kCalls; ++i) {
    preload::count_call(kOp, 3);
    preload::count_call(kOp + 1, 0);
    if (i == 0 && first != nullptr) {
      // Every thread has asked for a place while all of them live.
      pthread_barrier_wait(&g_all_count);
    }
  }
  return nullptr;
}

void run(uint32_t threads, bool together) {
  pthread_t thread[kThreads];
  for (uint32_t i = 0; i < threads; ++i) {
    pthread_create(&thread[i], nullptr, count, together ? &thread : nullptr);
  }
  for (uint32_t i = 0; i < threads; ++i) {
    pthread_join(thread[i], nullptr);
  }
}

uint32_t places(const wire::Segment& segment) {
  uint32_t used = 0;
  for (const std::atomic<int32_t>& owner : segment.header.thread_owners) {
    used += owner.load() != 0 ? 1 : 0;
  }
  return used;
}

}  // namespace

int main() {
  void* memory =
      mmap(nullptr, sizeof(wire::Segment), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return 98;
  }
  auto* segment = static_cast<wire::Segment*>(memory);
  preload::g_state.segment.store(segment);

  run(2, false);
  expect("calls of two threads", wire::totals_of(*segment, kOp).calls, 2 * kCalls);
  expect("none without a place", segment->ops[kOp].calls.load(), 0);
  expect("places of two threads", places(*segment) == 1 || places(*segment) == 2 ? 1 : 0, 1);

  pthread_barrier_init(&g_all_count, nullptr, kThreads);
  run(kThreads, true);
  const wire::OpSums sums = wire::totals_of(*segment, kOp);
  expect("calls of many threads", sums.calls, (2 + kThreads) * kCalls);
  expect("work of many threads", sums.work, (2 + kThreads) * kCalls * 3);
  expect("calls of another operation", wire::totals_of(*segment, kOp + 1).calls, (2 + kThreads) * kCalls);
  expect("places", places(*segment), wire::kThreadSlots);
  // Some had to do without, but for those that had an ended thread's place at the second try.
  expect("calls without a place", segment->ops[kOp].calls.load() > 0 ? 1 : 0, 1);

  const uint64_t without = segment->ops[kOp].calls.load();
  run(wire::kThreadSlots / 2, false);
  expect("calls of their successors", wire::totals_of(*segment, kOp).calls,
         (2 + kThreads + wire::kThreadSlots / 2) * kCalls);
  expect("successors have places", segment->ops[kOp].calls.load(), without);
  return g_wrong == 0 ? 0 : 1;
}
