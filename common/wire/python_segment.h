// The memory shared by the Python bootstrap of one process and the supervisor: what torch.distributed was
// asked to do. The supervisor creates a memfd, seals its size, and sends it when the process makes its first
// such call (NoticeKind::python_attach). The supervisor keeps its own mapping, so the data outlives the
// process. One writer, Python, which holds the GIL; it writes a record whole, then the counter that makes the
// record count. A reader trusts nothing: offsets and lengths are checked. docs/wire.md describes the layout
// in prose; the writer is preload/python/xpurun_torch.py, whose formats of `struct` repeat what stands here.
//
// Freestanding: shared by preload/ and launcher/. Bump kPythonSegmentVersion on any change of layout or
// meaning.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kPythonSegmentMagic = 0x3159'5050'4e52'5058;  // "XPRNPPY1"
inline constexpr uint32_t kPythonSegmentVersion = 1;

inline constexpr uint32_t kTorchGroups = 64;
inline constexpr uint32_t kTorchCollectives = 8;    // last ones remembered for each group
inline constexpr uint32_t kTorchPointToPoint = 16;  // likewise
inline constexpr uint32_t kTorchTextBytes = 256 * 1024;

// A text is a number: its offset in `text`, where its length in bytes stands (4 bytes), then its bytes. 0:
// none.
using TextRef = uint32_t;

enum TorchCallFlag : uint32_t {
  kTorchAsync = 1u << 0,  // async_op=True, isend, irecv: that the call has returned says nothing of its end
};

struct TorchCall {
  uint64_t
      sequence;  // collectives: from 1 in the group; others: from 1 with this operation and peer; 0: free
  uint64_t called_ns;  // CLOCK_MONOTONIC
  uint64_t left_ns;    // when the call returned or raised; 0: not yet
  uint64_t count;      // elements; 0: unknown or none
  TextRef op;          // "all_reduce"
  TextRef reduce;      // "sum"
  TextRef dtype;       // "float32"
  int32_t root;        // rank in the group; -1: none
  int32_t peer;        // likewise
  TextRef file;
  TextRef function;
  uint32_t line;
  uint32_t flags;  // TorchCallFlag
  uint32_t reserved;
};

struct TorchGroup {
  uint32_t state;  // 0 free, 1 in use, 2 destroyed
  int32_t rank;    // of this process in the group
  uint32_t size;
  TextRef members;          // global ranks as int32_t, by rank in the group
  TextRef id;               // equal on all ranks
  TextRef name;             // as torch names the group
  TextRef backend;          // "gloo"
  uint32_t has_async;       // 1 after the first asynchronous collective
  uint64_t called;          // collectives
  uint64_t left;            // of those, returned
  uint64_t point_to_point;  // calls; the newest is in place (point_to_point - 1) % kTorchPointToPoint
  uint64_t reserved;
  TorchCall collectives[kTorchCollectives];  // number n in place n % kTorchCollectives
  TorchCall others[kTorchPointToPoint];
};

struct PythonSegment {
  // Written by the supervisor.
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;  // sizeof(PythonSegment)
  // Written by the process.
  uint32_t groups;      // in use or destroyed, from the first on
  uint32_t text_bytes;  // used
  uint32_t lost;        // groups that found no room
  uint32_t pid;         // as the process sees itself
  uint8_t reserved[96];
  TorchGroup group[kTorchGroups];
  uint8_t text[kTorchTextBytes];
};

static_assert(sizeof(TorchCall) == 72 && offsetof(TorchCall, op) == 32 && offsetof(TorchCall, line) == 60,
              "wire layout");
static_assert(sizeof(TorchGroup) == 64 + 24 * 72 && offsetof(TorchGroup, called) == 32, "wire layout");
static_assert(offsetof(PythonSegment, groups) == 16 && offsetof(PythonSegment, group) == 128, "wire layout");
static_assert(sizeof(PythonSegment) == 128 + 64 * 1792 + 256 * 1024, "wire layout");

}  // namespace xpurun::wire
