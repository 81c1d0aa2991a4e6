#include "preload/cupti/activity_buffers.h"

#include "preload/core/clock.h"

#include <pthread.h>
#include <sys/mman.h>

namespace xpurun::preload::cupti {

namespace {

constexpr size_t kBuffers = 16;
constexpr size_t kBufferBytes = size_t{1} << 20;

// The mutex guards all variables below.
pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
uint8_t* g_memory = nullptr;  // of all buffers; kept, because CUPTI may hold one of them
bool g_in_use[kBuffers];
bool g_is_open = false;
wire::CaptureSegment* g_segment = nullptr;
const Functions* g_cupti = nullptr;
ActivityWriter g_writer;

class Lock {
 public:
  Lock() { pthread_mutex_lock(&g_mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { pthread_mutex_unlock(&g_mutex); }
};

void read_records(uint8_t* buffer, size_t valid) {
  void* record = nullptr;
  while (g_cupti->next_record(buffer, valid, &record) == kSuccess && record != nullptr) {
    g_writer.take(record);
  }
}

}  // namespace

bool open_buffers(wire::CaptureSegment& memory, const Functions& cupti, int64_t to_host_ns, int32_t poller) {
  const Lock lock;
  if (g_memory == nullptr) {
    // 16 MB of addresses. A page becomes memory only when CUPTI writes to it.
    void* mapped = mmap(nullptr, kBuffers * kBufferBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      return false;
    }
    g_memory = static_cast<uint8_t*>(mapped);
  }
  g_segment = &memory;
  g_cupti = &cupti;
  g_writer.begin(memory, cupti, to_host_ns, poller);
  g_is_open = true;
  return true;
}

// The address range stays mapped: CUPTI may still write to a buffer that it holds, and returns it later
// through buffer_completed(). Only the pages of the other buffers are given back.
void close_buffers() {
  const Lock lock;
  g_is_open = false;
  g_segment = nullptr;
  for (size_t i = 0; i < kBuffers; ++i) {
    if (!g_in_use[i]) {
      madvise(g_memory + i * kBufferBytes, kBufferBytes, MADV_DONTNEED);
    }
  }
}

bool are_records_full() {
  const Lock lock;
  return g_writer.is_full();
}

void buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records) {
  // Without a buffer CUPTI drops the records and counts them (dropped_records).
  *buffer = nullptr;
  *size = 0;
  *most_records = 0;
  const Lock lock;
  for (size_t i = 0; g_is_open && i < kBuffers; ++i) {
    if (!g_in_use[i]) {
      g_in_use[i] = true;
      *buffer = g_memory + i * kBufferBytes;
      *size = kBufferBytes;
      return;
    }
  }
}

void buffer_completed(void* context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  const uint64_t begin = now_ns();
  const Lock lock;
  if (g_is_open) {
    wire::CaptureHeader& header = g_segment->header;
    if (buffer != nullptr && valid > 0) {
      read_records(buffer, valid);
    }
    size_t dropped = 0;
    if (g_cupti->dropped_records(context, stream, &dropped) == kSuccess && dropped > 0) {
      header.dropped.fetch_add(dropped, std::memory_order_relaxed);
    }
    header.handling_ns.fetch_add(now_ns() - begin, std::memory_order_relaxed);
  }
  // Also after the end of a capture: CUPTI returns its last buffers late, and the next capture needs them.
  const size_t index = buffer == nullptr ? kBuffers : static_cast<size_t>(buffer - g_memory) / kBufferBytes;
  if (index < kBuffers) {
    g_in_use[index] = false;
  }
}

}  // namespace xpurun::preload::cupti
