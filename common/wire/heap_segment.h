// The memory shared by the preload library of one rank and the supervisor: samples of the memory that the
// process has allocated and not freed, by the stack of the allocation. The supervisor creates a memfd, seals
// its size, and sends it to the library's constructor (NoticeKind::heap_attach). It keeps its own mapping, so
// the data outlives the process. Any thread that allocates writes, without a lock: entries are claimed by
// compare-and-swap and published by a release store. Readers trust nothing.
//
// Freestanding: shared by preload/ and launcher/. Bump kHeapSegmentVersion on any change of layout or
// meaning.
#pragma once

#include <atomic>
#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

inline constexpr uint64_t kHeapSegmentMagic = 0x3150'4148'4e52'5058;  // "XPRNHAP1"
inline constexpr uint32_t kHeapSegmentVersion = 1;

inline constexpr uint32_t kHeapLive = 32768;   // sampled allocations that are not freed
inline constexpr uint32_t kHeapBucket = 8;     // of these, places of one address
inline constexpr uint32_t kHeapStacks = 4096;  // the first is for all that find no other
inline constexpr uint32_t kHeapFrames = 40;    // of a stack
inline constexpr uint32_t kHeapPlaces = 8192;  // the first is none
inline constexpr uint32_t kHeapTexts = 4096;   // the first is none
inline constexpr uint32_t kHeapTextBytes = 512 * 1024;
inline constexpr uint32_t kHeapProbes = 16;  // entries of a table in which a key may be

enum class HeapEntry : uint32_t { free = 0, claimed = 1, ready = 2 };

// How Python's frames of a thread are linked; numbers of stackdump::FrameChain.
enum HeapChain : uint32_t { kHeapFrameObjects = 0, kHeapCframeEntry = 1, kHeapCframeShim = 2, kHeapShim = 3 };

// Offsets of the interpreter's structures, which the supervisor knows (stackdump/cpython/offsets).
struct HeapPython {
  std::atomic<uint32_t> ready;  // the others are valid, and were tried on the stack of the main thread
  uint32_t chain;               // HeapChain
  uint32_t thread_frame;
  uint32_t cframe_current;
  uint32_t frame_previous;
  uint32_t frame_code;
  uint32_t frame_instr;
  uint32_t frame_boundary;
  uint32_t frame_tagged;       // references carry tags in their lowest two bits
  uint32_t instruction_bytes;  // FrameObjects: bytes per unit of f_lasti
  uint32_t code_instructions;
  uint32_t code_firstlineno;
  uint32_t code_filename;
  uint32_t code_name;
  uint32_t object_type;
  uint32_t unicode_length;
  uint32_t unicode_state;
  uint32_t unicode_kind_shift;
  uint32_t unicode_ascii_data;
  uint32_t unicode_compact_data;
};

// A frame: a line of Python, or the return address of a call.
struct HeapPlace {
  std::atomic<uint64_t> key;
  std::atomic<uint32_t> state;  // HeapEntry
  uint32_t file;                // a text; 0: the frame is an address
  uint32_t function;            // a text
  int32_t line;
  uint64_t address;
};

struct HeapText {
  std::atomic<uint64_t> key;
  std::atomic<uint32_t> state;  // HeapEntry
  uint32_t offset;              // in `text`
  uint32_t bytes;
  uint32_t unused;
};

struct HeapStack {
  std::atomic<uint64_t> key;
  std::atomic<uint32_t> state;  // HeapEntry
  uint32_t depth;
  std::atomic<int64_t> held;  // estimated bytes that were allocated and not freed
  std::atomic<int64_t> held_samples;
  std::atomic<uint64_t> allocated;  // estimated bytes, since the start
  uint32_t frames[kHeapFrames];     // places, innermost first
};

struct HeapLive {
  std::atomic<uint64_t> address;  // 0: free; 1: claimed
  std::atomic<uint64_t> bytes;    // that the sample stands for
  std::atomic<uint32_t> stack;
  uint32_t unused;
};

struct HeapSegment {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;  // of all
  // Written by the supervisor.
  std::atomic<uint32_t> interval;  // mean number of allocated bytes between two samples; 0: none are taken
  HeapPython python;
  // Written by the process.
  alignas(64) std::atomic<uint32_t> pid;
  std::atomic<uint32_t> text_bytes;  // in use
  std::atomic<uint32_t> coarser;     // the interval is this power of two larger, to keep within the budget
  std::atomic<uint64_t> samples;
  std::atomic<uint64_t> lost;  // samples without room
  std::atomic<int64_t> live;   // entries in use
  alignas(64) HeapStack stacks[kHeapStacks];
  HeapPlace places[kHeapPlaces];
  HeapText texts[kHeapTexts];
  HeapLive entries[kHeapLive];
  char text[kHeapTextBytes];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(HeapPlace) == 32 && sizeof(HeapText) == 24 && sizeof(HeapStack) == 200 &&
                  sizeof(HeapLive) == 24,
              "wire layout");

}  // namespace xpurun::wire
