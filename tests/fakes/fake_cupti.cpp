// A stand-in for libcupti.so.13 that delivers made records. From cuptiActivityEnable on, each millisecond has
// a kernel of 600 us and one of NCCL of 300 us that begins 100 us before the first one ends, each with its
// launch; each tenth a copy; all on stream 7. FAKE_CUPTI says how it misbehaves: "busy": another client has
// subscribed; "comes": another client subscribes during the capture; "old": a version without known records;
// "refuses": cuptiActivityEnable fails; "drops": records are dropped.
#include "tests/fakes/fake_cupti.h"

#include "preload/cupti/cupti_abi.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <time.h>
#include <unistd.h>
#include <utility>

using namespace xpurun::preload;
using namespace xpurun::preload::cupti;
using namespace xpurun::fakes;

namespace {

constexpr Result kRefused = 35;                  // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
constexpr uint64_t kOrigin = uint64_t{1} << 60;  // of CUPTI's clock, which is not the host's
constexpr uint32_t kLaunchCallback = 211;        // cudaLaunchKernel
constexpr uint32_t kCopyCallback = 41;           // cudaMemcpyAsync

std::mutex g_mutex;
BufferRequested g_requested = nullptr;
BufferCompleted g_completed = nullptr;
uint64_t g_since = 0;
uint64_t g_first = 0;  // of the capture
uint32_t g_correlation = 0;
int g_subscriptions = 0;
bool g_told_overhead = false;
bool g_enabled[32];

std::string_view mode() {
  const char* value = std::getenv("FAKE_CUPTI");
  return value == nullptr ? "" : value;
}

uint64_t now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return kOrigin + static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

// "clock" of FAKE_PM: from 0.1 s after the begin of the records on, CUPTI's clock counts half nanoseconds.
uint64_t told_time() {
  const char* pm = std::getenv("FAKE_PM");
  const uint64_t at = now();
  const bool changed =
      pm != nullptr && std::string_view(pm) == "clock" && g_first != 0 && at > g_first + 100 * kMs;
  return changed ? 2 * at : at;
}

struct Buffer {
  uint8_t* bytes = nullptr;
  size_t size = 0;
  size_t used = 0;
};

size_t size_of(uint32_t kind) {
  switch (kind) {
    case kConcurrentKernel:
      return 208;  // as in CUPTI 13, beyond the part that is used
    case kMemcpy:
      return 88;
    case kOverhead:
      return 56;
    default:
      return 40;
  }
}

template <typename R>
void put(Buffer& buffer, const R& record) {
  const size_t size = size_of(record.kind);
  if (!g_enabled[record.kind]) {
    return;
  }
  if (buffer.bytes == nullptr || buffer.used + size > buffer.size) {
    if (buffer.bytes != nullptr) {
      g_completed(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
    }
    size_t most = 0;
    buffer = {};
    g_requested(&buffer.bytes, &buffer.size, &most);
    if (buffer.bytes == nullptr) {
      return;
    }
  }
  std::memset(buffer.bytes + buffer.used, 0, size);
  std::memcpy(buffer.bytes + buffer.used, &record, std::min(size, sizeof record));
  buffer.used += size;
}

void put_kernel(Buffer& buffer, const char* name, uint64_t start, uint64_t end) {
  ++g_correlation;
  put(buffer, CallRecord{.kind = kRuntime,
                         .callback = kLaunchCallback,
                         .start = start - 20'000,
                         .end = start - 15'000,
                         .process = 1,
                         .thread = static_cast<uint32_t>(getpid()),
                         .correlation = g_correlation,
                         .result = 0});
  KernelRecord kernel{};
  kernel.kind = kConcurrentKernel;
  kernel.start = start;
  kernel.end = end;
  kernel.stream = 7;
  kernel.correlation = g_correlation;
  kernel.name = name;
  put(buffer, kernel);
}

void put_copy(Buffer& buffer, uint64_t start) {
  ++g_correlation;
  put(buffer, CallRecord{.kind = kRuntime,
                         .callback = kCopyCallback,
                         .start = start - 9'000,
                         .end = start - 1'000,
                         .process = 1,
                         .thread = static_cast<uint32_t>(getpid()),
                         .correlation = g_correlation,
                         .result = 0});
  CopyRecord copy{};
  copy.kind = kMemcpy;
  copy.copy = kHostToDevice;
  copy.source = kPageable;
  copy.bytes = 4096;
  copy.start = start;
  copy.end = start + 50'000;
  copy.stream = 7;
  copy.correlation = g_correlation;
  put(buffer, copy);
}

void deliver() {
  Buffer buffer;
  const uint64_t end = now();
  OverheadRecord overhead{};
  overhead.kind = kOverhead;
  overhead.overhead = kOverheadOfCupti[0];
  overhead.start = end - 2 * kMs;
  overhead.end = end - kMs;
  if (!std::exchange(g_told_overhead, true)) {
    put(buffer, overhead);
  }
  uint64_t at = g_since;
  for (uint64_t i = 0; at + kMs <= end; at += kMs, ++i) {
    put_kernel(buffer, "_Z9my_kernelILi4EEvPfi", at + kKernelBegin, at + kKernelEnd);
    put_kernel(buffer, "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
               at + kCollectiveBegin, at + kCollectiveEnd);
    if (i % 10 == 0) {
      put_copy(buffer, at + 900'000);
    }
  }
  put_kernel(buffer, "_Z9my_kernelILi4EEvPfi", end, 0);  // still running
  g_since = at;
  if (buffer.bytes != nullptr) {
    g_completed(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
  }
}

}  // namespace

namespace xpurun::fakes {

uint64_t cupti_now() {
  return now();
}

uint64_t phase_ns() {
  return g_since;
}

}  // namespace xpurun::fakes

extern "C" {

Result cuptiGetVersion(uint32_t* version) {
  *version = mode() == "old" ? 17 : 130001;
  return kSuccess;
}
Result cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = told_time();
  return kSuccess;
}
Result cuptiSubscribe(void** subscriber, Callback, void*) {
  const std::lock_guard lock(g_mutex);
  const bool taken = mode() == "busy" || (mode() == "comes" && g_subscriptions > 0);
  ++g_subscriptions;
  *subscriber = &g_subscriptions;
  return taken ? kMultipleSubscribers : kSuccess;
}
Result cuptiUnsubscribe(void*) {
  return kSuccess;
}
Result cuptiActivityRegisterCallbacks(BufferRequested requested, BufferCompleted completed) {
  g_requested = requested;
  g_completed = completed;
  g_told_overhead = false;
  return kSuccess;
}
Result cuptiActivityEnable(uint32_t kind) {
  g_since = now();
  g_first = g_since;
  g_enabled[kind] = true;
  return mode() == "refuses" ? kRefused : kSuccess;
}
Result cuptiActivityDisable(uint32_t) {
  return kSuccess;
}
Result cuptiActivityFlushAll(uint32_t) {
  if (g_since != 0 && mode() != "refuses") {
    deliver();
  }
  return kSuccess;
}
Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, void** record) {
  size_t at = 0;
  if (*record != nullptr) {
    auto* last = static_cast<uint8_t*>(*record);
    uint32_t kind = 0;
    std::memcpy(&kind, last, sizeof kind);
    at = static_cast<size_t>(last - buffer) + size_of(kind);
  }
  *record = at < valid ? buffer + at : nullptr;
  return at < valid ? kSuccess : kMaxLimitReached;
}
Result cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  *dropped = mode() == "drops" ? 3 : 0;
  return kSuccess;
}
Result cuptiGetCallbackName(uint32_t, uint32_t id, const char** name) {
  *name = id == kLaunchCallback ? "cudaLaunchKernel_v7000"
          : id == kCopyCallback ? "cudaMemcpyAsync_v3020"
                                : "";
  return kSuccess;
}
Result cuptiGetThreadIdType(uint32_t* type) {
  *type = 0;
  return kSuccess;
}
Result cuptiSetThreadIdType(uint32_t) {
  return kSuccess;
}
}
