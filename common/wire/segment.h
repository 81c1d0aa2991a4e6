// The memory shared by a rank's preload library and the supervisor. The supervisor creates a memfd, seals its
// size, and sends it over the notice socket when the rank makes its first GPU call. The supervisor keeps its
// own mapping, so the data outlives the rank. docs/wire.md describes the layout in prose. The supervisor
// writes `to_rank` and `ring_tail`, the rank writes everything else. Changing numbers are atomics; the rank's
// threads add to them without a lock. Readers trust nothing: sizes and offsets are the constants here,
// indices are checked. Freestanding: shared by preload/ and launcher/. Bump kSegmentVersion on any change of
// layout or meaning.
#pragma once

#include "common/wire/api.h"

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kSegmentMagic = 0x3147'4553'4e52'5058;  // "XPRNSEG1"
inline constexpr uint32_t kSegmentVersion = 8;

inline constexpr uint32_t kOpSlots = 1024;  // a power of two
inline constexpr uint32_t kCommSlots = 128;
inline constexpr uint32_t kRingSlots = 32768;  // a power of two
inline constexpr uint32_t kSignatures = 256;   // latest collectives kept per communicator
inline constexpr uint32_t kThreadSlots = 32;   // threads with call counters of their own
inline constexpr uint32_t kNoComm = 0xffffffff;

enum class Level : uint32_t { off, light, full };

// The method that measured a duration. Stored with every duration.
enum class Source : uint8_t {
  none,
  events,              // a pair of CUDA events around the call, GPU time
  host_query,          // from the launch (or the end of the stream's earlier work) until the end was noticed
  host_call,           // host time of the call itself
  nccl_profiler,       // GPU clock, by NCCL's own profiler interface
  nccl_profiler_host,  // from the same interface in NCCL 2.26, with times of NCCL's proxy thread
  cupti,               // an activity record of CUPTI during a capture; in event files only
  event_group,         // a pair of CUDA events around a group of messages, which this one is in
};

// Algorithm and protocol that NCCL's profiler interface reported for a collective. Zero is unknown.
enum class Algorithm : uint8_t { unknown, tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
enum class Protocol : uint8_t { unknown, ll, ll128, simple };

struct CollectiveHow {
  uint8_t algorithm;  // Algorithm
  uint8_t protocol;   // Protocol
  uint8_t channels;
};

enum class RankState : uint32_t {
  none,
  attached,  // counting
  timing,    // event pools are ready
  off,       // given up; off_reason says why
};

enum class OffReason : uint32_t { none, no_runtime, no_thread, cuda_errors, process_end };

// The key of a table entry: calls with equal keys are counted together. Compared bytewise: zero the struct
// first.
struct OpKey {
  uint16_t api;      // Api
  uint8_t op_class;  // OpClass
  uint8_t flags;     // OpFlag
  // cudaDataType_t of A, B, C, D; collectives: ncclDataType_t in [0].
  uint8_t dtype[4];
  uint8_t compute;  // matmul: cublasComputeType_t; collective: ncclRedOp_t
  uint8_t trans;    // matmul: operation of A | operation of B << 4 (0 N, 1 T, 2 C)
  uint16_t epilogue;
  uint32_t batch;  // matmul; grouped forms: number of groups
  // matmul: the problem; collective: k is the count of elements; memory: k is the binary logarithm of bytes.
  int64_t m;
  int64_t n;
  int64_t k;
  uint32_t comm;   // collective: index of CommEntry, else kNoComm
  int32_t peer;    // root or peer; -1: none
  uint8_t copy;    // memory: cudaMemcpyKind, else 0
  uint8_t pinned;  // memory: HostMemory
  uint8_t reserved[14];
};

enum OpFlag : uint8_t {
  kOpScaleA = 1u << 0,  // fp8: a scale is given
  kOpScaleB = 1u << 1,  // fp8: a scale is given
  kOpRowMajor = 1u << 2,
  kOpGrouped = 1u << 3,  // m, n, k are the first group's
  kOpMeets = 1u << 4,    // graph: it may hold collectives, because some had been captured before the launch
  kOpOther = 1u << 7,    // calls of this class that found no free entry because the table was full
};

enum class HostMemory : uint8_t { unknown, pageable, pinned };

enum class SlotState : uint32_t { free, writing, ready };

// Key and hash are written once, then `state` becomes ready. Afterwards only the counters change.
struct OpEntry {
  std::atomic<uint32_t> state;  // SlotState
  uint32_t hash;
  OpKey key;
  // Executed calls and their FLOP or bytes, exact. Excludes ThreadCounts; totals_of() adds both up.
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> work;
  std::atomic<uint64_t> captured;  // calls captured into a graph instead of executed
  std::atomic<uint64_t> timed;     // calls with a duration
  std::atomic<uint64_t> timed_ns;
  std::atomic<uint64_t> timed_work;
  std::atomic<uint64_t> host_ns;  // host time of the calls with a duration of source host_call
};

// The counts of one thread, by index of OpEntry. Only that thread writes, so counting needs no atomic
// addition. After the thread has ended, another thread may continue from its numbers.
struct OpCounts {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> work;
};
struct ThreadCounts {
  OpCounts ops[kOpSlots];
};

// One timed call.
struct Event {
  uint64_t begin_ns;  // CLOCK_MONOTONIC of the host, ns
  uint64_t duration_ns;
  uint32_t op;        // index of OpEntry
  uint32_t sequence;  // collective: sequence number on its communicator; send or receive: count within its
                      // OpEntry, from 1; else from 0; low 32 bits
  uint32_t delay_us;  // from the call to its start on the GPU, saturated
  uint16_t stream;    // number of the stream in the process, in order of appearance
  uint8_t source;     // Source
  uint8_t flags;      // EventFlag
  CollectiveHow how;
  uint8_t reserved[5];
};

enum EventFlag : uint8_t {
  kEventHostBegin = 1u << 0,  // begin_ns is the time of the call, because the GPU's clock is not aligned with
                              // the host's
  kEventFirstOfStep =
      1u << 1,  // the first collective (without collectives: the first work) of a training step
};

// The signature of a collective, which must be equal on all ranks of the communicator. Valid if `sequence` is
// equal before and after reading the other fields; 0 while it changes.
struct Signature {
  std::atomic<uint64_t> sequence;  // from 1
  std::atomic<uint64_t> op;        // Api | ncclDataType_t << 16 | ncclRedOp_t << 24 | root << 32
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> called_ns;
  std::atomic<uint64_t> hash;  // of the signatures of all calls up to this one, in their order
};

enum class CommState : uint32_t { free, claimed, initialising, live, finalized, aborted, destroyed, failed };

enum CommFlag : uint32_t {
  kCommMissedCalls = 1u << 0,  // timing was off for a while, so the counters are not comparable between ranks
  kCommLocalIdentity = 1u << 1,  // made by ncclCommInitAll or before xpurun attached: identity is meaningless
                                 // in other processes
};

struct CommEntry {
  std::atomic<uint32_t> state;     // CommState
  std::atomic<uint32_t> flags;     // CommFlag
  std::atomic<uint64_t> identity;  // equal on all ranks of the communicator
  std::atomic<uint64_t> handle;    // ncclComm_t in the rank
  std::atomic<int32_t> rank;       // in the communicator
  std::atomic<int32_t> nranks;
  std::atomic<int32_t> device;
  std::atomic<uint32_t> splits;  // communicators split from this one so far
  char name[40];                 // the name given to NCCL; may be empty
  // Counts of collectives: called by the program, launched (call or group returned), started on the GPU,
  // finished there.
  std::atomic<uint64_t> called;
  std::atomic<uint64_t> launched;
  std::atomic<uint64_t> started;
  std::atomic<uint64_t> done;
  // Counts of point-to-point calls, which have no common sequence numbers.
  std::atomic<uint64_t> sends;
  std::atomic<uint64_t> receives;
  std::atomic<uint64_t> point_to_point_launched;
  std::atomic<uint64_t> point_to_point_done;
  std::atomic<uint64_t> last_change_ns;  // CLOCK_MONOTONIC of the latest change of a counter
  std::atomic<uint64_t> last_stream;
  std::atomic<int64_t> last_result;  // of the latest failed call
  std::atomic<uint64_t> parent;      // identity of the communicator that this one was split from, else 0
  // The latest collective with a completion event. The end of later collectives is unknown, so `done` does
  // not cover them.
  std::atomic<uint64_t> marked;
  std::atomic<uint64_t> hash;  // of the latest signature
  uint64_t reserved[8];
};

// The preload library's counters about itself.
struct Health {
  std::atomic<uint64_t> hooked_calls;  // total of `ops`, up to about a second old
  std::atomic<uint64_t> own_ns;  // estimated host time of xpurun's code on the program's threads, scaled up
                                 // from samples
  std::atomic<uint64_t> poller_cpu_ns;  // CPU time of xpurun's thread
  std::atomic<uint64_t> polls;
  std::atomic<uint64_t> samples;  // calls with timing events around them
  std::atomic<uint64_t> completed;
  std::atomic<uint64_t> no_event;      // samples lost: no free event
  std::atomic<uint64_t> stream_full;   // samples lost: too many unfinished ones on that stream
  std::atomic<uint64_t> queue_full;    // samples lost: xpurun's thread is behind
  std::atomic<uint64_t> ring_dropped;  // events lost because the ring was full
  std::atomic<uint64_t> table_full;    // calls counted under kOpOther
  std::atomic<uint64_t> captured;
  std::atomic<uint64_t> cuda_errors;  // of xpurun's own CUDA calls
  std::atomic<uint64_t> kernel_launches;
  std::atomic<uint64_t> comms_full;
  std::atomic<uint64_t> event_host_ns;     // part of own_ns: CUDA calls that record timing events
  std::atomic<uint64_t> heartbeat_ns;      // CLOCK_MONOTONIC, of xpurun's thread
  std::atomic<uint64_t> marks;             // completion events recorded after collectives
  std::atomic<uint64_t> mark_host_ns;      // part of own_ns: CUDA calls that record completion events
  std::atomic<uint64_t> gpu_ns;            // assumed GPU time of the events; not measured
  std::atomic<uint64_t> profiler_samples;  // collectives that NCCL's profiler interface was asked to time
  std::atomic<uint64_t> profiler_host_ns;  // part of own_ns: profiler samples
  std::atomic<uint64_t> profiler_lost;     // profiler samples without (complete) times
  std::atomic<uint64_t> profiler_full;     // profiler samples lost: too many unfinished ones
};

// State of NCCL's profiler interface in this rank.
enum class ProfilerState : uint32_t {
  none,       // NCCL has not loaded the plugin: older than 2.23, or another plugin is set
  ready,      // provides the device times of collectives
  no_times,   // NCCL before 2.26: provides algorithm and protocol, no times
  known_bad,  // this NCCL version has a known problem with any plugin
  no_memory,  // /dev/shm is too small for NCCL's needs
  silent,     // no data came; events provide the times instead
};

// The user's own profiler plugin, which NCCL would load without xpurun.
enum class ChainState : uint32_t { none, forwarded, other_version, not_found };

struct ProfilerInfo {
  std::atomic<uint32_t> state;          // ProfilerState
  std::atomic<uint32_t> version;        // interface version, 1 to 6
  std::atomic<uint32_t> chain;          // ChainState
  std::atomic<uint32_t> chain_version;  // of the program's own plugin
};

// Calls that are timed regardless of the cost, for a trace or a look at some steps.
enum class Every : uint32_t { none, collective, call };

struct ToRank {
  std::atomic<uint32_t> level;       // Level
  std::atomic<uint32_t> budget_ppm;  // limit of the share of a step's time that light timing may cost, in
                                     // parts per million
  std::atomic<uint32_t> untimed;     // bit 1 << OpClass: calls are counted, but have no timing or completion
                                     // events
  std::atomic<uint32_t> poll_us;     // how often the rank looks for finished work, in us; 0: the rank decides
  std::atomic<uint32_t> host_events;  // 1: the host time of each hooked call also becomes an event
  std::atomic<uint32_t> every;        // Every; `call` only at level full
  std::atomic<uint32_t> capture;      // number of the capture to take part in (capture.h); 0: none
};

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;
  alignas(64) ToRank to_rank;
  alignas(64) std::atomic<uint64_t> ring_tail;  // next event to read
  alignas(64) std::atomic<uint64_t> ring_head;  // next event to write
  alignas(64) std::atomic<uint32_t> state;      // RankState
  std::atomic<uint32_t> off_reason;             // OffReason
  std::atomic<uint32_t> level;                  // in force
  std::atomic<uint32_t> period;                 // sampling interval: one call in `period` is timed
  std::atomic<int32_t> pid;                     // in the rank's own PID namespace
  std::atomic<int32_t> device;                  // first device used, by the rank's numbering; -1: none yet
  std::atomic<uint32_t> runtime_version;        // cudaRuntimeGetVersion
  std::atomic<uint32_t> nccl_version;           // ncclGetVersion
  std::atomic<uint64_t> attached_ns;            // CLOCK_MONOTONIC
  char device_name[64];
  char device_uuid[16];
  char pci_bus_id[32];
  alignas(64) Health health;
  alignas(64) ProfilerInfo profiler;
  // Shortest measured time between two adjacent timing events on the rank's first device, in ns; 0: unknown.
  // Subtracted from durations of source `events` except those of kernels; for matmuls more is subtracted
  // (docs/metrics.md).
  std::atomic<uint64_t> event_overhead_ns;
  std::atomic<uint64_t> event_overhead_is_off;  // 1: it has been subtracted from the durations
  // Timing events made in advance, and those of them that work in flight has (completion events too).
  std::atomic<uint32_t> events_made;
  std::atomic<uint32_t> events_in_flight;
  // The thread (in the rank's PID namespace) whose counts are in `threads`; 0: never used, and all later
  // slots are unused too.
  alignas(64) std::atomic<int32_t> thread_owners[kThreadSlots];
};

inline constexpr uint32_t kHeaderBytes = 4096;

struct Segment {
  SegmentHeader header;
  alignas(kHeaderBytes) OpEntry ops[kOpSlots];
  alignas(kHeaderBytes) CommEntry comms[kCommSlots];
  alignas(kHeaderBytes) Event ring[kRingSlots];
  alignas(kHeaderBytes) ThreadCounts threads[kThreadSlots];
  // Of each communicator: sequence s is at index s % kSignatures.
  alignas(kHeaderBytes) Signature signatures[kCommSlots][kSignatures];
};

struct OpSums {
  uint64_t calls;
  uint64_t work;
};

// Calls and work of an entry over all threads. Callable in any process. Each number is exact, but the two may
// be one call apart.
inline OpSums totals_of(const Segment& segment, uint32_t op) {
  OpSums sums{segment.ops[op].calls.load(std::memory_order_relaxed),
              segment.ops[op].work.load(std::memory_order_relaxed)};
  for (uint32_t i = 0; i < kThreadSlots; ++i) {
    if (segment.header.thread_owners[i].load(std::memory_order_relaxed) == 0) {
      break;
    }
    const OpCounts& counts = segment.threads[i].ops[op];
    sums.calls += counts.calls.load(std::memory_order_relaxed);
    sums.work += counts.work.load(std::memory_order_relaxed);
  }
  return sums;
}

static_assert(sizeof(OpKey) == 64 && offsetof(OpKey, m) == 16 && offsetof(OpKey, comm) == 40, "wire layout");
static_assert(sizeof(OpEntry) == 128 && offsetof(OpEntry, calls) == 72, "wire layout");
static_assert(sizeof(Event) == 40 && offsetof(Event, op) == 16 && offsetof(Event, how) == 32, "wire layout");
static_assert(sizeof(Signature) == 40, "wire layout");
static_assert(sizeof(CommEntry) == 256 && offsetof(CommEntry, called) == 80 &&
                  offsetof(CommEntry, marked) == 176 && offsetof(CommEntry, hash) == 184,
              "wire layout");
static_assert(sizeof(Health) == 192, "wire layout");
static_assert(offsetof(SegmentHeader, to_rank) == 64 && offsetof(SegmentHeader, ring_tail) == 128,
              "wire layout");
static_assert(offsetof(SegmentHeader, ring_head) == 192 && offsetof(SegmentHeader, state) == 256,
              "wire layout");
static_assert(offsetof(SegmentHeader, event_overhead_ns) == 656 &&
                  offsetof(SegmentHeader, events_made) == 672,
              "wire layout");
static_assert(offsetof(SegmentHeader, health) == 448 && offsetof(SegmentHeader, profiler) == 640 &&
                  sizeof(SegmentHeader) <= kHeaderBytes,
              "wire layout");
static_assert(offsetof(Segment, ops) == 4096, "wire layout");
static_assert(offsetof(Segment, comms) == 4096 + 128 * 1024, "wire layout");
static_assert(offsetof(Segment, ring) == 4096 + 128 * 1024 + 32 * 1024, "wire layout");
static_assert(offsetof(SegmentHeader, thread_owners) == 704, "wire layout");
static_assert(offsetof(Segment, threads) == 4096 + 128 * 1024 + 32 * 1024 + 1280 * 1024, "wire layout");
static_assert(sizeof(ThreadCounts) == 16 * 1024 &&
                  offsetof(Segment, signatures) == offsetof(Segment, threads) + 512 * 1024 &&
                  sizeof(Segment) == offsetof(Segment, signatures) + 1280 * 1024,
              "wire layout");
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8,
              "wire layout");

}  // namespace xpurun::wire
