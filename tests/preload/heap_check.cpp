// The samples of memory: an unbiased estimate, nothing left after everything was freed by any thread, and no
// effect in a forked child.
#include "preload/heap/bootstrap.h"
#include "preload/heap/sampler.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace xpurun;

constexpr uint64_t kInterval = 4096;
int g_wrong = 0;

void expect(const char* what, double found, double least, double most) {
  if (!(found >= least && found <= most)) {
    std::printf("WRONG %s: %.0f, not %.0f to %.0f\n", what, found, least, most);
    ++g_wrong;
  }
}
void expect(const char* what, int64_t found, int64_t wanted) {
  expect(what, static_cast<double>(found), static_cast<double>(wanted), static_cast<double>(wanted));
}

wire::HeapSegment& new_segment() {
  void* memory =
      mmap(nullptr, sizeof(wire::HeapSegment), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::abort();
  }
  auto& out = *static_cast<wire::HeapSegment*>(memory);
  out.interval = kInterval;
  return out;
}

int64_t held(const wire::HeapSegment& shared) {
  int64_t sum = 0;
  for (const wire::HeapStack& stack : shared.stacks) {
    sum += stack.held.load();
  }
  return sum;
}

// The generator is seeded, so that the result is always the same.
void check_weights() {
  preload::HeapThread thread{.left = 100, .interval = kInterval, .random = 12345, .is_busy = 0};
  uint64_t bytes = 0;
  uint64_t weights = 0;
  for (uint64_t i = 0; i < 4'000'000; ++i) {
    const uint64_t size = 16 + i * 7919 % 1000;
    bytes += size;
    weights += preload::heap_weight(thread, size, kInterval);
  }
  expect("estimate per 1000 bytes", 1000.0 * static_cast<double>(weights) / static_cast<double>(bytes), 990,
         1010);
  expect("a large allocation",
         static_cast<int64_t>(preload::heap_weight(thread, 2 * kInterval + 5, kInterval)), 2 * kInterval + 5);
}

// Many threads that allocate little, with the same interval and one that has grown since their first byte.
void check_weights_of_short_threads() {
  constexpr uint64_t kThreadsInAll = 200'000;
  constexpr uint64_t kSize = 256;
  uint64_t before = 0;
  uint64_t after = 0;
  for (uint64_t i = 0; i < kThreadsInAll; ++i) {
    preload::HeapThread thread{.left = 0, .interval = 0, .random = 0, .is_busy = 0};
    before += preload::heap_weight(thread, kSize, kInterval);
    preload::HeapThread older{.left = 0, .interval = 0, .random = 0, .is_busy = 0};
    preload::heap_weight(older, 1, kInterval);
    after += preload::heap_weight(older, kSize, 16 * kInterval);
  }
  constexpr double kBytes = kThreadsInAll * kSize;
  expect("estimate of first allocations", 100 * static_cast<double>(before) / kBytes, 95, 105);
  expect("estimate after a change of the interval", 100 * static_cast<double>(after) / kBytes, 95, 105);
}

void check_filter() {
  static uint8_t counts[preload::HeapFilter::kBytes];
  preload::HeapFilter filter(counts);
  expect("before", filter.may_have(0x1000), 0);
  for (int i = 0; i < 3; ++i) {
    filter.add(0x1000);
  }
  filter.remove(0x1000);
  filter.remove(0x1000);
  expect("once more", filter.may_have(0x1000), 1);
  filter.remove(0x1000);
  expect("after", filter.may_have(0x1000), 0);
}

void check_texts() {
  wire::HeapSegment& shared = new_segment();
  const uint32_t first = preload::put_heap_text(shared, "train.py", 8);
  expect("an equal text", preload::put_heap_text(shared, "train.py", 8), first);
  expect("its bytes", std::memcmp(shared.text + shared.texts[first].offset, "train.py", 8), 0);
  expect("another text", preload::put_heap_text(shared, "model.py", 8) != first, 1);
  char text[16];
  uint32_t without_room = 0;
  for (int i = 0; i < 20'000; ++i) {
    const int length = std::snprintf(text, sizeof(text), "text %d", i);
    without_room += preload::put_heap_text(shared, text, static_cast<size_t>(length)) == 0 ? 1 : 0;
  }
  expect("texts without room", without_room, 20'000 - wire::kHeapTexts, 20'000 - wire::kHeapTexts * 3 / 4);
}

void check_room() {
  wire::HeapSegment& shared = new_segment();
  static uint8_t counts[preload::HeapFilter::kBytes];
  preload::HeapFilter filter(counts);
  constexpr uint64_t kMany = 2 * wire::kHeapLive;
  for (uint64_t i = 1; i <= kMany; ++i) {
    preload::add_heap_sample(shared, filter, i * 64, {.bytes = 10, .stack = 3});
  }
  expect("kept and lost", shared.live.load() + static_cast<int64_t>(shared.lost.load()), kMany);
  expect("held", shared.stacks[3].held.load(), 10 * shared.live.load());
  for (uint64_t i = 1; i <= kMany; ++i) {
    preload::remove_heap_sample(shared, filter, i * 64);
  }
  expect("nothing is held", held(shared), 0);
  preload::add_heap_sample(shared, filter, 64, {.bytes = 10, .stack = 3});
  preload::add_heap_sample(shared, filter, 64, {.bytes = 20, .stack = 4});
  expect("an address that was freed unseen", held(shared), 20);
}

// Memory that one thread allocates is freed by the next one.
constexpr int kThreads = 4;
constexpr int kRounds = 60'000;
std::atomic<void*> g_handed[64];

void* allocate_and_free(void* number) {
  const auto seed = reinterpret_cast<uintptr_t>(number);
  for (uintptr_t i = 0; i < kRounds; ++i) {
    const size_t size = 32 + (i * 131 + seed * 17) % 9000;
    void* memory = std::malloc(size);
    preload::heap_allocated(memory, size,
                            {.address = 0x400000 + i % 50, .frame = __builtin_frame_address(0)});
    void* other = g_handed[(i * 7 + seed) % 64].exchange(memory);
    if (other != nullptr) {
      if (preload::may_be_heap_sample(other)) {
        preload::heap_frees(other);
      }
      std::free(other);
    }
  }
  return nullptr;
}

void check_threads(const wire::HeapSegment& shared) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], nullptr, allocate_and_free, reinterpret_cast<void*>(i));
  }
  for (pthread_t thread : threads) {
    pthread_join(thread, nullptr);
  }
  expect("samples", static_cast<double>(shared.samples.load()), 1000, 1e9);
  for (auto& handed : g_handed) {
    if (void* memory = handed.exchange(nullptr)) {
      preload::heap_frees(memory);
      std::free(memory);
    }
  }
  expect("held after all was freed", held(shared), 0);
  expect("alive after all was freed", shared.live.load(), 0);
}

void check_fork(wire::HeapSegment& shared) {
  shared.coarser = 0;  // the threads have used up the budget
  static char large[4 * kInterval];
  preload::heap_allocated(large, sizeof(large), {.address = 1, .frame = __builtin_frame_address(0)});
  expect("held before", held(shared), sizeof(large));
  const uint64_t samples = shared.samples.load();
  const pid_t child = fork();
  if (child == 0) {
    const bool may_have = preload::may_be_heap_sample(large);
    const uint64_t freed = preload::heap_frees(large).bytes;
    preload::heap_allocated(large + 64, sizeof(large), {.address = 1, .frame = __builtin_frame_address(0)});
    _exit(may_have || freed != 0 ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect("the child's state", status, 0);
  expect("held after the child", held(shared), sizeof(large));
  expect("samples after the child", static_cast<int64_t>(shared.samples.load()),
         static_cast<int64_t>(samples));
  preload::heap_frees(large);
}

void check_bootstrap() {
  void* first = preload::bootstrap_allocate(100, 0);
  void* second = preload::bootstrap_allocate(1, 4096);
  expect("size", static_cast<int64_t>(preload::bootstrap_size(first)), 100);
  expect("alignment", static_cast<int64_t>(reinterpret_cast<uintptr_t>(second) % 4096), 0);
  expect("of another", static_cast<int64_t>(preload::bootstrap_size(&first)), 0);
  expect("too much", preload::bootstrap_allocate(1 << 20, 0) == nullptr, 1);
}

}  // namespace

int main() {
  check_weights();
  check_weights_of_short_threads();
  check_filter();
  check_texts();
  check_room();
  check_bootstrap();
  wire::HeapSegment& shared = new_segment();
  if (!preload::start_heap_sampling(shared)) {
    std::printf("SKIP the kernel has no MADV_WIPEONFORK\n");
    return g_wrong == 0 ? 77 : 1;
  }
  check_threads(shared);
  check_fork(shared);
  return g_wrong == 0 ? 0 : 1;
}
