// The memory shared by a rank's preload library and the supervisor. The supervisor creates a memfd, seals its
// size, and sends it over the notice socket when the rank makes its first GPU call. The supervisor keeps its
// own mapping, so the data outlives the rank. docs/wire.md describes the layout in prose. Who writes what:
// `to_rank` and `ring_tail` the supervisor, everything else the rank. Numbers that change are atomics; the
// rank's threads add to them without a lock. A reader trusts nothing: sizes and offsets are the constants
// here, indices are checked. Freestanding: shared by preload/ and launcher/. Bump kSegmentVersion on any
// change of layout or meaning.
#pragma once

#include "common/wire/api.h"

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kSegmentMagic = 0x3147'4553'4e52'5058;  // "XPRNSEG1"
inline constexpr uint32_t kSegmentVersion = 4;

inline constexpr uint32_t kOpSlots = 1024;  // a power of two
inline constexpr uint32_t kCommSlots = 128;
inline constexpr uint32_t kRingSlots = 32768;  // a power of two
inline constexpr uint32_t kSignatures = 8;     // last collectives remembered for each communicator
inline constexpr uint32_t kThreadSlots = 32;   // threads that count calls in a place of their own
inline constexpr uint32_t kNoComm = 0xffffffff;

enum class Level : uint32_t { off, light, full };

// How a duration was measured. Stored with every duration.
enum class Source : uint8_t {
  none,
  events,         // a pair of CUDA events around the call, GPU time
  host_query,     // launch (or the end of what ran before on the stream) to the moment the end was noticed
  host_call,      // how long the call itself kept the host
  nccl_profiler,  // GPU clock, by NCCL's own profiler interface
  nccl_profiler_host,  // by the same interface of NCCL 2.26, whose times are those of NCCL's proxy thread
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
  off,       // gave up; off_reason says why
};

enum class OffReason : uint32_t { none, no_runtime, no_thread, cuda_errors, process_end };

// The key of a table entry: calls with equal keys are counted together. Compared as bytes: zero the struct
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
  int32_t peer;    // root or peer, -1 none
  uint8_t copy;    // memory: cudaMemcpyKind, else 0
  uint8_t pinned;  // memory: HostMemory
  uint8_t reserved[14];
};

enum OpFlag : uint8_t {
  kOpScaleA = 1u << 0,  // fp8: a scale is given
  kOpScaleB = 1u << 1,  // likewise
  kOpRowMajor = 1u << 2,
  kOpGrouped = 1u << 3,  // m, n, k are those of the first group
  kOpOther = 1u << 7,    // the table was full: everything of this class that found no place
};

enum class HostMemory : uint8_t { unknown, pageable, pinned };

enum class SlotState : uint32_t { free, writing, ready };

// Key and hash are written once, then `state` becomes ready. After that only the counters change.
struct OpEntry {
  std::atomic<uint32_t> state;  // SlotState
  uint32_t hash;
  OpKey key;
  // Executed calls and their FLOP or bytes, exact; without those in ThreadCounts. totals_of() adds both up.
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> work;
  std::atomic<uint64_t> captured;  // calls that went into a graph instead
  std::atomic<uint64_t> timed;     // of calls: with a duration
  std::atomic<uint64_t> timed_ns;
  std::atomic<uint64_t> timed_work;
  std::atomic<uint64_t>
      host_ns;  // time the calls kept the host, of those with a duration of source host_call
};

// What one thread has counted, by index of OpEntry. Only that thread writes, so that counting needs no atomic
// addition. When the thread has ended, another may go on from its numbers.
struct OpCounts {
  std::atomic<uint64_t> calls;
  std::atomic<uint64_t> work;
};
struct ThreadCounts {
  OpCounts ops[kOpSlots];
};

// One call whose duration is known.
struct Event {
  uint64_t begin_ns;  // CLOCK_MONOTONIC of the host
  uint64_t duration_ns;
  uint32_t op;        // index of OpEntry
  uint32_t sequence;  // collective: number on its communicator; else that of its OpEntry, from 0; low 32 bits
  uint32_t delay_us;  // from the call to the begin on the GPU, saturated
  uint16_t stream;    // number of the stream in the process, in order of appearance
  uint8_t source;     // Source
  uint8_t flags;      // EventFlag
  CollectiveHow how;
  uint8_t reserved[5];
};

enum EventFlag : uint8_t {
  kEventHostBegin = 1u << 0,  // begin_ns is when the call was made: the GPU's clock is not tied to the host's
};

// The signature of a collective, which must be equal on all ranks of the communicator. Valid if `sequence` is
// equal before and after reading the other fields; 0 during a change.
struct Signature {
  std::atomic<uint64_t> sequence;  // from 1
  std::atomic<uint64_t> op;        // Api | ncclDataType_t << 16 | ncclRedOp_t << 24 | root << 32
  std::atomic<uint64_t> count;
  std::atomic<uint64_t> called_ns;
};

enum class CommState : uint32_t { free, claimed, initialising, live, finalized, aborted, destroyed, failed };

enum CommFlag : uint32_t {
  kCommMissedCalls = 1u << 0,  // timing was off for a while: the counters are not comparable between ranks
  kCommLocalIdentity =
      1u << 1,  // made by ncclCommInitAll or before we looked: identity means nothing elsewhere
};

struct CommEntry {
  std::atomic<uint32_t> state;     // CommState
  std::atomic<uint32_t> flags;     // CommFlag
  std::atomic<uint64_t> identity;  // the same on all ranks of the communicator
  std::atomic<uint64_t> handle;    // ncclComm_t in the rank
  std::atomic<int32_t> rank;       // in the communicator
  std::atomic<int32_t> nranks;
  std::atomic<int32_t> device;
  std::atomic<uint32_t> splits;  // made from this one so far
  char name[40];                 // as given to NCCL; empty if none
  // Collectives: called by the program, launched (call or group returned), started on the GPU, finished
  // there.
  std::atomic<uint64_t> called;
  std::atomic<uint64_t> launched;
  std::atomic<uint64_t> started;
  std::atomic<uint64_t> done;
  // Point-to-point calls; they have no common sequence numbers.
  std::atomic<uint64_t> sends;
  std::atomic<uint64_t> receives;
  std::atomic<uint64_t> point_to_point_launched;
  std::atomic<uint64_t> point_to_point_done;
  std::atomic<uint64_t> last_change_ns;  // CLOCK_MONOTONIC, any of the counters
  std::atomic<uint64_t> last_stream;
  std::atomic<int64_t> last_result;  // of the last call that failed
  std::atomic<uint64_t> parent;      // identity of the communicator this one was split from, else 0
  // The last collective with a completion event. For later collectives the end is unknown, so `done` says
  // nothing about them.
  std::atomic<uint64_t> marked;
  uint64_t reserved[9];
  Signature signatures[kSignatures];  // of sequence s in s % kSignatures
};

// The preload library's counters about itself.
struct Health {
  std::atomic<uint64_t> hooked_calls;  // counted in `ops`, as of about a second ago
  std::atomic<uint64_t> own_ns;  // host time of ours on the program's threads, measured on samples, scaled
  std::atomic<uint64_t> poller_cpu_ns;  // CPU time of our thread
  std::atomic<uint64_t> polls;
  std::atomic<uint64_t> samples;  // calls with timing events around them
  std::atomic<uint64_t> completed;
  std::atomic<uint64_t> no_event;      // wanted a sample, no free event
  std::atomic<uint64_t> stream_full;   // wanted a sample, too many unfinished on that stream
  std::atomic<uint64_t> queue_full;    // wanted a sample, our thread is behind
  std::atomic<uint64_t> ring_dropped;  // events that found the ring full
  std::atomic<uint64_t> table_full;    // calls counted under kOpOther
  std::atomic<uint64_t> captured;
  std::atomic<uint64_t> cuda_errors;  // of our own calls
  std::atomic<uint64_t> kernel_launches;
  std::atomic<uint64_t> comms_full;
  std::atomic<uint64_t> event_host_ns;     // of own_ns: around the CUDA calls that record timing events
  std::atomic<uint64_t> heartbeat_ns;      // CLOCK_MONOTONIC, our thread
  std::atomic<uint64_t> marks;             // events without timing behind collectives
  std::atomic<uint64_t> mark_host_ns;      // of own_ns: around the CUDA calls that record those
  std::atomic<uint64_t> gpu_ns;            // GPU time that the events are taken to cost; no measurement
  std::atomic<uint64_t> profiler_samples;  // collectives that NCCL's profiler interface was asked to time
  std::atomic<uint64_t> profiler_host_ns;  // of own_ns: for those
  std::atomic<uint64_t> profiler_lost;     // of those: no (complete) times came
  std::atomic<uint64_t> profiler_full;     // wanted such a sample, too many unfinished
};

// State of NCCL's profiler interface in this rank.
enum class ProfilerState : uint32_t {
  none,       // NCCL has not loaded us: older than 2.23, or another plugin is set
  ready,      // device times of collectives come from there
  no_times,   // NCCL before 2.26: it tells algorithm and protocol, no times
  known_bad,  // this version of NCCL is known for trouble with any plugin
  no_memory,  // /dev/shm is too small for what NCCL would need
  silent,     // nothing came; times by events instead
};

// The user's own profiler plugin, which NCCL would have loaded without xpurun.
enum class ChainState : uint32_t { none, forwarded, other_version, not_found };

struct ProfilerInfo {
  std::atomic<uint32_t> state;          // ProfilerState
  std::atomic<uint32_t> version;        // of the interface, 1 to 6
  std::atomic<uint32_t> chain;          // ChainState
  std::atomic<uint32_t> chain_version;  // of the program's own plugin
};

struct ToRank {
  std::atomic<uint32_t> level;        // Level
  std::atomic<uint32_t> budget_ppm;   // most of a step's time that light timing may cost
  std::atomic<uint32_t> untimed;      // bit 1 << OpClass: counted, neither timed nor marked
  std::atomic<uint32_t> poll_us;      // how often the rank looks for what has finished; 0: it decides
  std::atomic<uint32_t> host_events;  // 1: what each hooked call takes on the host is an event as well
};

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;
  alignas(64) ToRank to_rank;
  alignas(64) std::atomic<uint64_t> ring_tail;  // next event to be read
  alignas(64) std::atomic<uint64_t> ring_head;  // next event to be written
  alignas(64) std::atomic<uint32_t> state;      // RankState
  std::atomic<uint32_t> off_reason;             // OffReason
  std::atomic<uint32_t> level;                  // in force
  std::atomic<uint32_t> period;                 // one of so many calls is timed
  std::atomic<int32_t> pid;                     // as the rank sees itself
  std::atomic<int32_t> device;                  // first device used, as the rank numbers them; -1 none yet
  std::atomic<uint32_t> runtime_version;        // cudaRuntimeGetVersion
  std::atomic<uint32_t> nccl_version;           // ncclGetVersion
  std::atomic<uint64_t> attached_ns;            // CLOCK_MONOTONIC
  char device_name[64];
  char device_uuid[16];
  char pci_bus_id[32];
  alignas(64) Health health;
  alignas(64) ProfilerInfo profiler;
  // Shortest measured time between two timing events with nothing between them, on the rank's first device;
  // 0: unknown. Subtracted from durations of source `events` except those of kernels; for matmuls more is
  // subtracted (docs/metrics.md).
  std::atomic<uint64_t> event_overhead_ns;
  std::atomic<uint64_t> event_overhead_is_off;  // 1: taken off
  // The thread (as the rank sees it) whose counts are in `threads`; 0: never used, nor is any place after it.
  alignas(64) std::atomic<int32_t> thread_owners[kThreadSlots];
};

inline constexpr uint32_t kHeaderBytes = 4096;

struct Segment {
  SegmentHeader header;
  alignas(kHeaderBytes) OpEntry ops[kOpSlots];
  alignas(kHeaderBytes) CommEntry comms[kCommSlots];
  alignas(kHeaderBytes) Event ring[kRingSlots];
  alignas(kHeaderBytes) ThreadCounts threads[kThreadSlots];
};

struct OpSums {
  uint64_t calls;
  uint64_t work;
};

// Calls and work of an entry, by all threads. Any process; each number is exact, the two may be a call apart.
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
static_assert(sizeof(Signature) == 32, "wire layout");
static_assert(sizeof(CommEntry) == 512 && offsetof(CommEntry, called) == 80 &&
                  offsetof(CommEntry, marked) == 176,
              "wire layout");
static_assert(offsetof(CommEntry, signatures) == 256, "wire layout");
static_assert(sizeof(Health) == 192, "wire layout");
static_assert(offsetof(SegmentHeader, to_rank) == 64 && offsetof(SegmentHeader, ring_tail) == 128,
              "wire layout");
static_assert(offsetof(SegmentHeader, ring_head) == 192 && offsetof(SegmentHeader, state) == 256,
              "wire layout");
static_assert(offsetof(SegmentHeader, event_overhead_ns) == 656, "wire layout");
static_assert(offsetof(SegmentHeader, health) == 448 && offsetof(SegmentHeader, profiler) == 640 &&
                  sizeof(SegmentHeader) <= kHeaderBytes,
              "wire layout");
static_assert(offsetof(Segment, ops) == 4096, "wire layout");
static_assert(offsetof(Segment, comms) == 4096 + 128 * 1024, "wire layout");
static_assert(offsetof(Segment, ring) == 4096 + 128 * 1024 + 64 * 1024, "wire layout");
static_assert(offsetof(SegmentHeader, thread_owners) == 704, "wire layout");
static_assert(offsetof(Segment, threads) == 4096 + 128 * 1024 + 64 * 1024 + 1280 * 1024, "wire layout");
static_assert(sizeof(ThreadCounts) == 16 * 1024 && sizeof(Segment) == offsetof(Segment, threads) + 512 * 1024,
              "wire layout");
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(std::atomic<uint64_t>) == 8,
              "wire layout");

}  // namespace xpurun::wire
