// Writes to a segment as fast as it can, from several threads at once, with the preload's own code, until it
// is killed: segment_writer FD. A record is good if its fields agree with each other, see test_segment.py.
#include "preload/core/clock.h"
#include "preload/core/resolve.h"
#include "preload/core/state.h"
#include "preload/nccl/ledger.h"
#include "preload/record/op_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace {
xpurun::wire::Segment* g_segment = nullptr;
}

// Stand-ins for functions of the rest of the preload.
namespace xpurun::preload {
constinit State g_state;
__thread ThreadState t_thread = {};
uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}
void* find_in_library(const char*, const char*) {
  return nullptr;
}
}  // namespace xpurun::preload

namespace {

using namespace xpurun;

void* call_and_launch(void* number) {
  const auto thread = reinterpret_cast<uintptr_t>(number);
  const uint32_t index = preload::claim_comm(1000 + thread, static_cast<int>(thread), 8, "written by a test");
  wire::CommEntry& comm = g_segment->comms[index];
  comm.state.store(static_cast<uint32_t>(wire::CommState::live));
  for (uint64_t i = 1;; ++i) {
    wire::OpKey key{};
    key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
    key.comm = index;
    key.m = key.n = key.k = static_cast<int64_t>(i % 200);
    const uint32_t op = preload::find_op(*g_segment, key);
    preload::collective_called(comm, key, preload::now_ns());
    preload::add(g_segment->ops[op].calls, 1);
    preload::collectives_launched(comm, 1, 0, nullptr, preload::now_ns());
    preload::collectives_done(comm, i, 0, preload::now_ns());
  }
  return nullptr;
}

void* fill_ring(void*) {
  wire::SegmentHeader& h = g_segment->header;
  for (uint64_t i = 0;; ++i) {
    const uint64_t head = h.ring_head.load(std::memory_order_relaxed);
    if (head - h.ring_tail.load(std::memory_order_acquire) >= wire::kRingSlots) {
      h.ring_tail.store(head);  // the reader of this test comes only after death
    }
    wire::Event event{};
    event.begin_ns = i;
    event.duration_ns = i;
    event.sequence = static_cast<uint32_t>(i);
    g_segment->ring[head % wire::kRingSlots] = event;
    h.ring_head.store(head + 1, std::memory_order_release);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  void* memory =
      argc > 1 ? mmap(nullptr, sizeof(wire::Segment), PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[1]), 0)
               : MAP_FAILED;
  if (memory == MAP_FAILED) {
    return 98;
  }
  g_segment = static_cast<wire::Segment*>(memory);
  preload::g_state.segment.store(g_segment);
  pthread_t thread{};
  pthread_create(&thread, nullptr, fill_ring, nullptr);
  pthread_create(&thread, nullptr, call_and_launch, reinterpret_cast<void*>(uintptr_t{1}));
  call_and_launch(reinterpret_cast<void*>(uintptr_t{2}));
}
