// The memory in which a rank puts the activity of its GPU during a capture: one record for each kernel, copy
// and call that CUPTI reports. The supervisor creates a memfd, seals its size, and sends it when the rank
// asks for it. The rank appends records and names, the supervisor reads behind it. Readers trust nothing:
// sizes and offsets are the constants here, indices are checked. Freestanding: shared by preload/ and
// launcher/. Bump kCaptureVersion on any change of layout or meaning.
#pragma once

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kCaptureMagic = 0x3150'4143'4e52'5058;  // "XPRNCAP1"
inline constexpr uint32_t kCaptureVersion = 1;

inline constexpr uint32_t kCaptureRecords = 1u << 19;
inline constexpr uint32_t kCaptureNames = 800;
inline constexpr uint32_t kCaptureText = 1u << 20;  // bytes of all names

enum class CaptureState : uint32_t {
  none,
  starting,  // CUPTI is being set up
  running,
  done,    // all records are there
  failed,  // there is no record; `problem` says why
};

enum class CaptureProblem : uint32_t {
  none,
  no_object,     // libxpurun_cupti.so cannot be loaded
  no_library,    // no libcupti.so
  version,       // CUPTI older than 12.0, or a later one with unknown records
  other_client,  // another client has subscribed to CUPTI: torch.profiler, Nsight
  client_came,   // another client came during the capture, which ended with this
  refused,       // CUPTI returned `error`
  no_memory,
};

enum class CapturedKind : uint8_t { none, kernel, copy, set, runtime, driver };

struct CapturedRecord {
  uint64_t begin_ns;  // CLOCK_MONOTONIC of the host
  uint64_t duration_ns;
  uint64_t bytes;        // copy, set
  uint32_t name;         // index into CaptureSegment::names
  uint32_t correlation;  // equal for a call and the work that it launched
  uint32_t lane;         // GPU: CUPTI's number of the stream; host: the thread's id, as the rank sees it
  uint8_t kind;          // CapturedKind
  uint8_t copy;          // cudaMemcpyKind
  uint8_t pinned;        // HostMemory
  uint8_t reserved[5];
};

struct CapturedName {
  uint32_t offset;  // into `text`
  uint32_t length;
};

struct CaptureHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;
  // Written by the supervisor.
  std::atomic<uint32_t> duration_ms;
  std::atomic<uint32_t> stop;  // 1: end early
  // Written by the rank.
  alignas(64) std::atomic<uint32_t> state;  // CaptureState
  std::atomic<uint32_t> problem;            // CaptureProblem
  std::atomic<uint32_t> cupti_version;      // cuptiGetVersion
  std::atomic<int32_t> error;               // CUptiResult
  std::atomic<uint64_t> begin_ns;           // of the capture, CLOCK_MONOTONIC; 0: not begun
  std::atomic<uint64_t> end_ns;
  std::atomic<uint64_t> dropped;      // records that CUPTI dropped
  std::atomic<uint64_t> no_room;      // records that found no room here
  std::atomic<uint64_t> overhead_ns;  // CUPTI's own time, as CUPTI reports it
  std::atomic<uint64_t> handling_ns;  // time to take the records out of CUPTI's buffers
  std::atomic<uint64_t> setup_ns;     // from the request until CUPTI recorded
  std::atomic<uint64_t> teardown_ns;  // from the end of the capture until CUPTI recorded no more
  std::atomic<uint32_t> names;
  alignas(64) std::atomic<uint64_t> records;  // written last, after the record and its name
};

struct CaptureSegment {
  CaptureHeader header;
  alignas(4096) CapturedName names[kCaptureNames];
  alignas(4096) char text[kCaptureText];
  alignas(4096) CapturedRecord records[kCaptureRecords];
};

static_assert(sizeof(CapturedRecord) == 48 && offsetof(CapturedRecord, kind) == 36, "wire layout");
static_assert(offsetof(CaptureHeader, state) == 64 && offsetof(CaptureHeader, records) == 192, "wire layout");
static_assert(offsetof(CaptureSegment, names) == 4096 && offsetof(CaptureSegment, text) == 12288,
              "wire layout");
static_assert(offsetof(CaptureSegment, records) == 12288 + kCaptureText, "wire layout");

}  // namespace xpurun::wire
