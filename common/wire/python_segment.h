// The memory shared by the Python bootstrap of one process and the supervisor: the calls of
// torch.distributed and the latest spans. The supervisor creates a memfd, seals its size, and sends it when
// the process makes its first such call or ends its first span (NoticeKind::python_attach). The supervisor
// keeps its own mapping, so the data outlives the process. The only writer is Python, under the GIL: it
// writes the whole record, then the counter, of a span the number, that publishes the record. Readers trust
// nothing and check offsets and lengths. docs/wire.md describes the layout in prose. The writers are
// preload/python/xpurun_torch.py and xpurun_segment.py, whose `struct` formats repeat this layout. The marks
// of a program in C are in a segment of the same layout (NoticeKind::marks_attach), whose writer is
// preload/marks/.
//
// Freestanding: shared by preload/ and launcher/. Bump kPythonSegmentVersion on any change of layout or
// meaning.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kPythonSegmentMagic = 0x3159'5050'4e52'5058;  // "XPRNPPY1"
inline constexpr uint32_t kPythonSegmentVersion = 9;

inline constexpr uint32_t kTorchGroups = 64;
inline constexpr uint32_t kTorchCollectives = 256;  // latest calls kept per group
inline constexpr uint32_t kTorchPointToPoint = 64;  // latest calls kept per group
inline constexpr uint32_t kTorchTextBytes = 256 * 1024;
inline constexpr uint32_t kTorchSplits = 64;       // latest calls with sizes per peer
inline constexpr uint32_t kTorchSplitPeers = 128;  // larger groups have no sizes per peer

inline constexpr uint32_t kPythonSpans = 4096;  // latest spans kept

inline constexpr uint32_t kTracedBytes = 16 * 1024;  // names of the traced functions

// Why the supervisor asks for a look at the memory.
enum MemoryReason : uint32_t { kMemoryRequest = 0, kMemoryGrowth = 1 };

// A text is its offset in `text`: 4 bytes of length in bytes, then the text. 0: none.
using TextRef = uint32_t;

enum TorchCallFlag : uint32_t {
  kTorchAsync = 1u << 0,  // the call's return does not mark the end of the operation: async_op=True, isend,
                          // irecv, NCCL
  kTorchInHandler = 1u << 1,  // a handler of a signal made the call
  kTorchRaised = 1u << 2,     // the call has raised
};

struct TorchCall {
  uint64_t sequence;  // collectives: from 1 in the group; others: from 1 per operation, peer and tag; 0: free
  uint64_t called_ns;  // CLOCK_MONOTONIC
  uint64_t left_ns;    // CLOCK_MONOTONIC when the call returned or raised; 0: not yet
  uint64_t count;      // elements; 0: unknown or none
  TextRef op;          // "all_reduce"
  TextRef reduce;      // "sum"
  TextRef dtype;       // "float32"
  int32_t root;        // rank in the group; -1: none
  int32_t peer;        // rank in the group; -1: none
  TextRef file;
  TextRef function;
  uint32_t line;
  uint32_t flags;  // TorchCallFlag
  int32_t tag;     // of a message; 0 if the backend ignores tags
  TextRef thread;  // name of the calling thread
  // new_group, split_group: the list of ranks, as a text. all_to_all: number of TorchSplits, from 1. 0: none.
  uint32_t detail;
};

// The sizes of one all_to_all, by rank in the group.
struct TorchSplits {
  uint32_t number;  // from 1 in the process; 0 while it is written; number n is at index n % kTorchSplits
  uint32_t peers;
  uint32_t sent[kTorchSplitPeers];
  uint32_t received[kTorchSplitPeers];
};

struct TorchGroup {
  uint32_t state;  // 0 free, 1 in use, 2 destroyed
  int32_t rank;    // this process's rank in the group
  uint32_t size;
  TextRef members;          // int32_t global ranks, by rank in the group
  TextRef id;               // equal on all ranks
  TextRef name;             // torch's name of the group
  TextRef description;      // by the program, or the dimension of a device mesh: "mesh_tp"
  uint32_t has_async;       // 1 after the first collective with kTorchAsync
  uint64_t called;          // number of collectives called
  uint64_t left;            // number of these that have returned
  uint64_t point_to_point;  // number of calls; the newest is at index (point_to_point - 1) %
                            // kTorchPointToPoint
  TextRef backend;          // "gloo"; if devices have several: "cpu:gloo,cuda:nccl"
  uint32_t reserved;
  TorchCall collectives[kTorchCollectives];  // call n is at index n % kTorchCollectives
  TorchCall others[kTorchPointToPoint];
};

enum PythonSpanFlag : uint8_t {
  kShortCalls = 1u << 0,  // a sum, no span: `sequence` calls of the function, each shorter than
                          // --trace-python-min, took `bytes` ns in all, between begin and end
  kInferred = 1u << 1,    // derived from the spans around it; no call of the program has this extent
  // Of a point-to-point call: the direction. `sequence` then holds the peer's rank in the group above
  // kPeerShift, and below the number of the call, from 1 with this peer in this direction.
  kSends = 1u << 2,
  kReceives = 1u << 3,
  kObjects = 1u << 4,  // with kSends or kReceives: send_object_list or recv_object_list, which count apart
};
inline constexpr uint32_t kPeerShift = 40;

struct PythonSpan {
  uint64_t number;    // from 1 in the process; 0 while the span is written; span n is at index (n - 1) %
                      // kPythonSpans
  uint64_t begin_ns;  // CLOCK_MONOTONIC
  uint64_t duration_ns;
  int64_t cpu_ns;     // of the thread; negative: unknown
  uint64_t sequence;  // of a collective, from 1 in its group; 0: none
  uint64_t bytes;     // of a collective; 0: unknown
  TextRef name;
  TextRef place;    // "train.py:40 (train)"
  uint32_t thread;  // id as the process sees it
  uint16_t group;   // index in PythonSegment::group, plus 1; 0: none
  uint8_t stage;    // model::Stage
  uint8_t flags;    // PythonSpanFlag
};

struct PythonSegment {
  // Written by the supervisor.
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;  // sizeof(PythonSegment)
  // Written by the process.
  uint32_t groups;      // number in use or destroyed; they fill the array from its start
  uint32_t text_bytes;  // bytes in use
  uint32_t lost;        // groups without a free slot
  uint32_t pid;         // in the process's own PID namespace
  // Written by the supervisor.
  uint32_t records_spans;  // 0: the process writes no spans
  // The functions to trace from now on, if other ones than at the start of the run: 0 while nothing has
  // changed and during a change. The process looks at the lowest byte, which is never 0 otherwise, at each
  // span.
  uint32_t traced_change;
  uint32_t traced_bytes;  // of `traced`
  // Written by the process: the change that it has followed.
  uint32_t traced_taken;
  // Written by the supervisor.
  uint64_t traced_least_ns;  // shorter calls are summed up
  // Written by the process in init_process_group: its arguments, until the group exists.
  int32_t join_rank;   // negative: unknown
  uint32_t join_size;  // 0: not in init_process_group
  TextRef join_place;  // "127.0.0.1:29500", a file; empty: unknown
  uint32_t reserved;
  // Written by the process after a step of its optimizer (without one, of a stage), about once a second: GPU
  // memory in bytes, by PyTorch's allocator, of the thread's current device. A reader may see numbers of two
  // such moments.
  uint64_t gpu_memory_ns;  // CLOCK_MONOTONIC; 0: none
  uint64_t gpu_allocated;
  uint64_t gpu_reserved;
  uint64_t gpu_peak;   // most that was allocated
  uint64_t gpu_total;  // of the device
  // Written by the supervisor, the number last: a look at the memory that the process shall make at the end
  // of its next step (preload/python/xpurun_memory.py). The process looks at the lowest byte of the number,
  // which is never 0 once a look was asked for.
  uint32_t look_number;
  uint32_t look_steps;    // of a window in which allocations are recorded; 0: look at once
  uint32_t look_reason;   // MemoryReason
  uint32_t look_objects;  // 1: also at what Python allocates in the window
  TorchGroup group[kTorchGroups];
  uint8_t text[kTorchTextBytes];
  PythonSpan spans[kPythonSpans];
  char traced[kTracedBytes];  // names with commas
  TorchSplits splits[kTorchSplits];
};

static_assert(sizeof(TorchCall) == 80 && offsetof(TorchCall, op) == 32 && offsetof(TorchCall, line) == 60 &&
                  offsetof(TorchCall, flags) == 64 && offsetof(TorchCall, detail) == 76,
              "wire layout");
static_assert(sizeof(TorchGroup) == 64 + 320 * 80 && offsetof(TorchGroup, called) == 32, "wire layout");
static_assert(offsetof(PythonSegment, groups) == 16 && offsetof(PythonSegment, group) == 128, "wire layout");
static_assert(offsetof(PythonSegment, records_spans) == 32 && offsetof(PythonSegment, traced_change) == 36 &&
                  offsetof(PythonSegment, traced_least_ns) == 48 &&
                  offsetof(PythonSegment, join_rank) == 56 && offsetof(PythonSegment, gpu_memory_ns) == 72 &&
                  offsetof(PythonSegment, look_number) == 112,
              "wire layout");
static_assert(sizeof(PythonSpan) == 64 && offsetof(PythonSpan, name) == 48, "wire layout");
static_assert(offsetof(PythonSegment, spans) == 128 + 64 * 25664 + 256 * 1024, "wire layout");
static_assert(offsetof(PythonSegment, splits) == 128 + 64 * 25664 + 256 * 1024 + 4096 * 64 + 16 * 1024,
              "wire layout");
static_assert(sizeof(TorchSplits) == 1032 &&
                  sizeof(PythonSegment) == offsetof(PythonSegment, splits) + 64 * 1032,
              "wire layout");

}  // namespace xpurun::wire
