// The used part of CUPTI's activity interface, as own prototypes. Records grow at their end from version to
// version; the offsets here are those of CUPTI 12.0 to 13.2.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload::cupti {

using Result = int;

inline constexpr Result kSuccess = 0;
inline constexpr Result kMaxLimitReached = 12;  // no further record in the buffer
inline constexpr Result kMultipleSubscribers = 39;

// cuptiGetVersion: 19 is CUDA 12.0, 28 is 12.9; from 13.0 on major, minor and patch, two digits each.
inline constexpr uint32_t kOldestVersion = 19;
inline constexpr uint32_t kNewestOfCuda12 = 99;
inline constexpr uint32_t kCuda13 = 130000;
inline constexpr uint32_t kCuda14 = 140000;

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
};

inline constexpr uint32_t kRuntimeApi = 2;  // domain of callback numbers

inline constexpr uint32_t kThreadIdOfSystem = 1;
inline constexpr uint32_t kForcedFlush = 1;

// CUpti_ActivityOverheadKind: the time of CUPTI itself. Others are the driver's.
inline constexpr uint32_t kOverheadOfCupti[] = {
    1u << 16,  // flushing buffers
    2u << 16,  // instrumentation
    3u << 16,  // resources
    7u << 16,  // requesting buffers
};

// CUpti_ActivityMemcpyKind
enum CopyKind : uint8_t { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 8, kPeerToPeer = 10 };
// CUpti_ActivityMemoryKind
enum MemoryKind : uint8_t { kPageable = 1, kPinned = 2 };

struct KernelRecord {
  uint32_t kind;
  uint32_t caches[3];
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  int32_t shared_memory[2];
  uint32_t local_memory[2];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
};

struct CopyRecord {
  uint32_t kind;
  uint8_t copy;
  uint8_t source;
  uint8_t destination;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
};

struct SetRecord {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
};

struct CallRecord {
  uint32_t kind;
  uint32_t callback;
  uint64_t start;
  uint64_t end;
  uint32_t process;
  uint32_t thread;
  uint32_t correlation;
  uint32_t result;
};

struct OverheadRecord {
  uint32_t kind;
  uint32_t overhead;
  uint32_t object_kind;
  uint32_t object[3];
  uint64_t start;
  uint64_t end;
};

static_assert(offsetof(KernelRecord, start) == 16 && offsetof(KernelRecord, stream) == 48 &&
                  offsetof(KernelRecord, correlation) == 92 && offsetof(KernelRecord, name) == 104,
              "CUpti_ActivityKernel9, 10, 11");
static_assert(offsetof(CopyRecord, bytes) == 8 && offsetof(CopyRecord, stream) == 40 &&
                  offsetof(CopyRecord, correlation) == 44,
              "CUpti_ActivityMemcpy5, 6");
static_assert(offsetof(SetRecord, bytes) == 8 && offsetof(SetRecord, correlation) == 44,
              "CUpti_ActivityMemset4");
static_assert(offsetof(CallRecord, start) == 8 && offsetof(CallRecord, thread) == 28, "CUpti_ActivityAPI");
static_assert(offsetof(OverheadRecord, start) == 24, "CUpti_ActivityOverhead, 2, 3");

using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* most_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);
using Callback = void (*)(void* user, uint32_t domain, uint32_t id, const void* data);

struct Functions {
  Result (*get_version)(uint32_t*);
  Result (*get_timestamp)(uint64_t*);
  Result (*subscribe)(void** subscriber, Callback, void* user);
  Result (*unsubscribe)(void* subscriber);
  Result (*register_callbacks)(BufferRequested, BufferCompleted);
  Result (*enable)(uint32_t kind);
  Result (*disable)(uint32_t kind);
  Result (*flush_all)(uint32_t flag);
  Result (*next_record)(uint8_t* buffer, size_t valid, void** record);
  Result (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  Result (*callback_name)(uint32_t domain, uint32_t id, const char** name);
  // nullptr where this CUPTI lacks them.
  Result (*get_thread_id_type)(uint32_t*);
  Result (*set_thread_id_type)(uint32_t);
};

}  // namespace xpurun::preload::cupti
