// The memory in which a rank puts the activity of its GPU during a capture: one record for each kernel, copy
// and call that CUPTI reports, and samples of hardware counters. The supervisor creates a memfd, seals its
// size, and sends it when the rank asks for it. The rank appends records and names, the supervisor reads
// behind it. Readers trust nothing: sizes and offsets are the constants here, indices are checked.
// Freestanding: shared by preload/ and launcher/. Bump kCaptureVersion on any change of layout or meaning.
#pragma once

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kCaptureMagic = 0x3150'4143'4e52'5058;  // "XPRNCAP1"
inline constexpr uint32_t kCaptureVersion = 3;

inline constexpr uint32_t kCaptureRecords = 1u << 19;
inline constexpr uint32_t kCaptureNames = 800;
inline constexpr uint32_t kCaptureText = 1u << 20;  // bytes of all names
inline constexpr uint32_t kResourceSamples = 1u << 18;
inline constexpr uint32_t kMetricText = 192;  // bytes of the metrics of a resource, with the ending 0

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

enum class CapturedKind : uint8_t { none, kernel, copy, set, runtime };

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

// Readings of a GPU's hardware counters. Shares of the peak, 0 to 1, or bytes a second.
enum class Resource : uint8_t {
  sm,          // share of the multiprocessors' cycles with a warp
  tensor,      // share of the tensor pipes' cycles
  dram,        // share of the memory's peak throughput
  nvlink_rx,   // bytes/s
  nvlink_tx,   // bytes/s
  pcie,        // share of the peak throughput
  pcie_read,   // bytes/s
  pcie_write,  // bytes/s
};
inline constexpr uint32_t kResources = 8;

// Why there are no samples, or why they end early.
enum class SamplingProblem : uint32_t {
  none,
  off,            // switched off by kSamplingEnv
  no_functions,   // CUPTI older than that of CUDA 12.6
  no_permission,  // the driver lets the superuser only
  busy,           // another process samples this GPU
  not_supported,  // by this GPU, by virtualisation, MIG
  no_metrics,     // the chip gives none of those that are wanted
  refused,        // CUPTI returned `error` at `step`
  no_memory,
  clock,  // CUPTI's clock was changed meanwhile: the times of the samples are unknown
};

// The call that failed.
enum class SamplingStep : uint32_t {
  none,
  initialize,    // cuptiProfilerInitialize
  chip,          // cuptiDeviceGetChipName
  availability,  // cuptiPmSamplingGetCounterAvailability
  host,          // cuptiProfilerHostInitialize
  metrics,       // cuptiProfilerHostConfigAddMetrics
  config,        // cuptiProfilerHostGetConfigImage
  enable,        // cuptiPmSamplingEnable
  set_config,    // cuptiPmSamplingSetConfig
  image,         // cuptiPmSamplingGetCounterDataSize, cuptiPmSamplingCounterDataImageInitialize
  start,         // cuptiPmSamplingStart
  decode,        // cuptiPmSamplingDecodeData
  evaluate,      // cuptiProfilerHostEvaluateToGpuValues
};

// "0" in the environment of a rank: captures without samples.
inline constexpr char kSamplingEnv[] = "XPURUN_PM_SAMPLING";

struct ResourceSample {
  uint64_t begin_ns;  // CLOCK_MONOTONIC of the host
  uint32_t duration_ns;
  uint32_t reserved;
  float values[kResources];
};

struct CapturedName {
  uint32_t offset;  // into `text`
  uint32_t length;
};

// Written by the rank.
struct SamplingHeader {
  std::atomic<uint32_t> problem;          // SamplingProblem
  std::atomic<uint32_t> step;             // SamplingStep
  std::atomic<int32_t> error;             // CUptiResult
  std::atomic<uint32_t> resources;        // one bit for each Resource that is sampled
  std::atomic<uint64_t> asked_ns;         // interval that was asked for
  std::atomic<uint64_t> overflows;        // times that the hardware's buffer was found full
  std::atomic<uint64_t> lost;             // samples without a known begin, and those that found no room here
  std::atomic<uint64_t> setup_ns;         // before the capture
  std::atomic<uint64_t> handling_ns;      // to decode and evaluate samples
  std::atomic<uint64_t> stop_ns;          // after the capture
  char metrics[kResources][kMetricText];  // CUPTI's names, joined by " + "; written before `resources`
  alignas(64) std::atomic<uint64_t> samples;  // written last, after the sample
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
  alignas(64) SamplingHeader sampling;
};

struct CaptureSegment {
  CaptureHeader header;
  alignas(4096) CapturedName names[kCaptureNames];
  alignas(4096) char text[kCaptureText];
  alignas(4096) CapturedRecord records[kCaptureRecords];
  alignas(4096) ResourceSample samples[kResourceSamples];
};

static_assert(sizeof(CapturedRecord) == 48 && offsetof(CapturedRecord, kind) == 36, "wire layout");
static_assert(offsetof(CaptureHeader, state) == 64 && offsetof(CaptureHeader, records) == 192, "wire layout");
static_assert(offsetof(CaptureSegment, names) == 4096 && offsetof(CaptureSegment, text) == 12288,
              "wire layout");
static_assert(offsetof(CaptureSegment, records) == 12288 + kCaptureText, "wire layout");
static_assert(offsetof(SamplingHeader, samples) == 1600, "wire layout");
static_assert(sizeof(ResourceSample) == 48 && offsetof(CaptureHeader, sampling) == 256, "wire layout");
static_assert(offsetof(CaptureSegment, samples) == 12288 + kCaptureText + 48ull * kCaptureRecords,
              "wire layout");

}  // namespace xpurun::wire
