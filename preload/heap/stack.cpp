#include "preload/heap/stack.h"

#include "preload/heap/live_set.h"
#include "preload/heap/python_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr uint32_t kMostNative = 16;
constexpr uint32_t kMostSearches = 256;  // for ends of stacks, in the life of the process
constexpr uint32_t kSearchesPerThread = 2;

struct Mapping {
  uint64_t lo;
  uint64_t hi;
};
__thread Mapping t_stack;
__thread uint32_t t_searches;
constinit std::atomic<uint32_t> g_searches{0};

// The mapping that has the address, from lines of /proc/self/maps, which come in pieces.
class MappingSearch {
 public:
  explicit MappingSearch(uint64_t address) : address_(address) {}
  // True: found.
  bool add(const char* text, long bytes) {
    for (long i = 0; i < bytes; ++i) {
      take(text[i]);
      if (found_) {
        return true;
      }
    }
    return false;
  }
  Mapping mapping() const { return {ends_[0], ends_[1]}; }

 private:
  void take(char c) {
    const uint32_t digit = c >= '0' && c <= '9'   ? static_cast<uint32_t>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<uint32_t>(c - 'a' + 10)
                                                  : 16;
    if (c == '\n') {
      ends_[0] = ends_[1] = 0;
      part_ = 0;
    } else if (part_ < 2 && digit < 16) {
      ends_[part_] = ends_[part_] << 4 | digit;
    } else if (part_ < 2) {
      ++part_;
      found_ = part_ == 2 && address_ >= ends_[0] && address_ < ends_[1];
    }
  }

  uint64_t address_;
  uint64_t ends_[2] = {};
  uint32_t part_ = 0;
  bool found_ = false;
};

// Through syscall(2), because open(3) and read(3) are cancellation points.
Mapping mapping_of(uint64_t address) {
  const int saved_errno = errno;
  MappingSearch search(address);
  Mapping out{};
  const long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char piece[512];
  for (long bytes = fd < 0 ? 0 : 1; bytes > 0;) {
    bytes = syscall(SYS_read, fd, piece, sizeof(piece));
    if (bytes > 0 && search.add(piece, bytes)) {
      out = search.mapping();
      bytes = 0;
    }
  }
  if (fd >= 0) {
    syscall(SYS_close, fd);
  }
  errno = saved_errno;
  return out;
}

// Where the stack that has the address ends; 0: not known. What lies between is mapped: the thread's control
// block is at the end of its stack.
uint64_t end_of_stack(uint64_t address) {
  if (address >= t_stack.lo && address < t_stack.hi) {
    return t_stack.hi;
  }
  if (t_searches >= kSearchesPerThread ||
      g_searches.fetch_add(1, std::memory_order_relaxed) >= kMostSearches) {
    return 0;
  }
  ++t_searches;
  Mapping found = mapping_of(address);
  const uint64_t control = pthread_self();
  if (control >= found.lo && control < found.hi) {
    found.hi = control > address ? control : address;
  } else if (syscall(SYS_gettid) != getpid()) {
    return 0;  // a stack of the program's own, such as a coroutine's, which may end before the mapping does
  }
  t_stack = found;
  return t_stack.hi;
}

uint32_t native_frames(const HeapCaller& caller, HeapFrame* out) {
  uint32_t count = 0;
  out[count++] = {.address = caller.address, .instruction = -1};
  const auto own = reinterpret_cast<uint64_t>(caller.frame);
  const uint64_t end = end_of_stack(own);
  uint64_t saved[2] = {};
  uint64_t frame = own;
  while (count < kMostNative && end >= sizeof(saved) && frame >= own && frame <= end - sizeof(saved) &&
         frame % sizeof(uint64_t) == 0) {
    memcpy(saved, reinterpret_cast<const void*>(frame), sizeof(saved));
    if (frame != own) {
      if (saved[1] < 4096) {
        break;
      }
      out[count++] = {.address = saved[1], .instruction = -1};
    }
    if (saved[0] <= frame) {
      break;
    }
    frame = saved[0];
  }
  return count;
}

uint32_t place_of(wire::HeapSegment& shared, const HeapFrame& frame, uint64_t key) {
  bool is_new = false;
  wire::HeapPlace* place = find_heap_entry(shared.places, wire::kHeapPlaces, key, is_new);
  if (place == nullptr) {
    return 0;
  }
  if (is_new && frame.instruction < 0) {
    place->address = frame.address;
    publish_heap_entry(*place);
  } else if (is_new) {
    describe_python_frame(shared, frame, *place);
    publish_heap_entry(*place);
  }
  return static_cast<uint32_t>(place - shared.places);
}

}  // namespace

void prepare_heap_stacks() {
  prepare_python_frames();
}

uint32_t heap_stack(wire::HeapSegment& shared, const HeapCaller& caller) {
  static_assert(kMostNative <= wire::kHeapFrames);
  HeapFrame frames[wire::kHeapFrames];
  uint64_t keys[wire::kHeapFrames];
  uint32_t count = python_frames(shared.python, frames, wire::kHeapFrames);
  if (count == 0) {
    count = native_frames(caller, frames);
  }
  uint64_t key = count;
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_native = frames[i].instruction < 0;
    keys[i] = is_native ? heap_mix(frames[i].address, 1) : python_frame_key(shared.python, frames[i]);
    key = heap_mix(key, keys[i]);
  }
  bool is_new = false;
  wire::HeapStack* stack = find_heap_entry(shared.stacks, wire::kHeapStacks, key, is_new);
  if (stack == nullptr) {
    return 0;
  }
  if (is_new) {
    for (uint32_t i = 0; i < count; ++i) {
      stack->frames[i] = place_of(shared, frames[i], keys[i]);
    }
    stack->depth = count;
    publish_heap_entry(*stack);
  }
  return static_cast<uint32_t>(stack - shared.stacks);
}

}  // namespace xpurun::preload
