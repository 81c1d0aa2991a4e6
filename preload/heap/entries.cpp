#include "preload/heap/entries.h"

#include "preload/core/jump.h"
#include "preload/heap/bootstrap.h"
#include "preload/heap/sampler.h"

#include <atomic>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

namespace xpurun::preload {

namespace {

using Malloc = void*(size_t size);
using Calloc = void*(size_t count, size_t size);
using Realloc = void*(void* memory, size_t size);
using Free = void(void* memory);
using PosixMemalign = int(void** out, size_t alignment, size_t size);
using AlignedAlloc = void*(size_t alignment, size_t size);
using Valloc = void*(size_t size);
using Mmap = void*(void* address, size_t size, int protection, int flags, int fd, off_t offset);
using Munmap = int(void* address, size_t size);
// Its fifth argument is there with MREMAP_FIXED only; passing on a register that the caller has not set does
// no harm.
using Mremap = void*(void* address, size_t size, size_t new_size, int flags, void* to);

}  // namespace

#define XPURUN_HEAP_FUNCTIONS(X)   \
  X(malloc, Malloc)                \
  X(calloc, Calloc)                \
  X(realloc, Realloc)              \
  X(free, Free)                    \
  X(posix_memalign, PosixMemalign) \
  X(aligned_alloc, AlignedAlloc)   \
  X(memalign, AlignedAlloc)        \
  X(valloc, Valloc)                \
  X(mmap, Mmap)                    \
  X(mmap64, Mmap)                  \
  X(munmap, Munmap)                \
  X(mremap, Mremap)

namespace {

// The next functions; null until they are looked up.
#define XPURUN_NEXT(name, type) constinit std::atomic<type*> g_next_##name{nullptr};
XPURUN_HEAP_FUNCTIONS(XPURUN_NEXT)

namespace first {
#define XPURUN_DECLARE(name, type) type name;
XPURUN_HEAP_FUNCTIONS(XPURUN_DECLARE)
}  // namespace first
namespace sampling {
XPURUN_HEAP_FUNCTIONS(XPURUN_DECLARE)
}  // namespace sampling

}  // namespace

#define XPURUN_SLOT(name, type)                                                       \
  extern "C" {                                                                        \
  __attribute__((visibility("hidden"))) extern std::atomic<type*> xpurun_heap_##name; \
  constinit std::atomic<type*> xpurun_heap_##name{first::name};                       \
  }                                                                                   \
  XPURUN_ENTRY(name, xpurun_heap_##name)
XPURUN_HEAP_FUNCTIONS(XPURUN_SLOT)

namespace {

// The linker's own look-up may allocate, which is served from a piece of memory of its own. That is never
// given back, and no other function may see it: free() and realloc() look at the address from then on.
__thread bool t_looks_up;
constinit std::atomic<bool> g_keeps_first{false};

template <typename Function>
Function* look_up(std::atomic<Function*>& next, const char* name) {
  Function* found = next.load(std::memory_order_acquire);
  if (found == nullptr && !t_looks_up) {
    const int saved_errno = errno;
    t_looks_up = true;
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
    if (found == nullptr) {
      dlerror();  // the program's next dlerror() must not report this failed search
    }
    t_looks_up = false;
    next.store(found, std::memory_order_release);
    errno = saved_errno;
  }
  return found;
}

#define XPURUN_LOOK_UP(name) look_up(g_next_##name, #name)

// The next function, to which the slot then leads without a look at the address.
template <typename Function>
void settle(std::atomic<Function*>& slot, Function* expected, Function* next) {
  if (next != nullptr) {
    slot.compare_exchange_strong(expected, next, std::memory_order_release);
  }
}

#define XPURUN_SETTLE(name) settle(xpurun_heap_##name, &first::name, XPURUN_LOOK_UP(name))

void* from_arena(size_t size, size_t alignment) {
  g_keeps_first.store(true);
  return bootstrap_allocate(size, alignment);
}

namespace first {

void* malloc(size_t size) {
  XPURUN_SETTLE(malloc);
  Malloc* next = g_next_malloc.load(std::memory_order_relaxed);
  return next != nullptr ? next(size) : from_arena(size, 0);
}

void* calloc(size_t count, size_t size) {
  XPURUN_SETTLE(calloc);
  Calloc* next = g_next_calloc.load(std::memory_order_relaxed);
  if (next != nullptr) {
    return next(count, size);
  }
  size_t bytes = 0;
  return __builtin_mul_overflow(count, size, &bytes) ? nullptr : from_arena(bytes, 0);
}

void* realloc(void* memory, size_t size) {
  Realloc* next = XPURUN_LOOK_UP(realloc);
  const size_t old = bootstrap_size(memory);
  if (next != nullptr && old == 0) {
    return next(memory, size);
  }
  void* to = next != nullptr ? next(nullptr, size) : from_arena(size, 0);
  if (to != nullptr && old != 0) {
    memcpy(to, memory, old < size ? old : size);
  }
  return to;
}

void free(void* memory) {
  Free* next = XPURUN_LOOK_UP(free);
  if (next != nullptr && bootstrap_size(memory) == 0) {
    next(memory);
  }
}

int posix_memalign(void** out, size_t alignment, size_t size) {
  XPURUN_SETTLE(posix_memalign);
  if (PosixMemalign* next = g_next_posix_memalign.load(std::memory_order_relaxed)) {
    return next(out, alignment, size);
  }
  *out = from_arena(size, alignment);
  return *out != nullptr ? 0 : ENOMEM;
}

void* aligned_alloc(size_t alignment, size_t size) {
  XPURUN_SETTLE(aligned_alloc);
  AlignedAlloc* next = g_next_aligned_alloc.load(std::memory_order_relaxed);
  return next != nullptr ? next(alignment, size) : from_arena(size, alignment);
}

void* memalign(size_t alignment, size_t size) {
  XPURUN_SETTLE(memalign);
  AlignedAlloc* next = g_next_memalign.load(std::memory_order_relaxed);
  return next != nullptr ? next(alignment, size) : from_arena(size, alignment);
}

void* valloc(size_t size) {
  XPURUN_SETTLE(valloc);
  Valloc* next = g_next_valloc.load(std::memory_order_relaxed);
  return next != nullptr ? next(size) : from_arena(size, 4096);
}

void* mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  XPURUN_SETTLE(mmap);
  Mmap* next = g_next_mmap.load(std::memory_order_relaxed);
  return next != nullptr ? next(address, size, protection, flags, fd, offset)
                         : bootstrap_mmap(address, size, protection, flags, fd, offset);
}

void* mmap64(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  XPURUN_SETTLE(mmap64);
  Mmap* next = g_next_mmap64.load(std::memory_order_relaxed);
  return next != nullptr ? next(address, size, protection, flags, fd, offset)
                         : bootstrap_mmap(address, size, protection, flags, fd, offset);
}

int munmap(void* address, size_t size) {
  XPURUN_SETTLE(munmap);
  Munmap* next = g_next_munmap.load(std::memory_order_relaxed);
  return next != nullptr ? next(address, size) : bootstrap_munmap(address, size);
}

void* mremap(void* address, size_t size, size_t new_size, int flags, void* to) {
  XPURUN_SETTLE(mremap);
  Mremap* next = g_next_mremap.load(std::memory_order_relaxed);
  return next != nullptr ? next(address, size, new_size, flags, to)
                         : bootstrap_mremap(address, size, new_size, flags, to);
}

}  // namespace first

// The library that has malloc(): memory that the allocator itself maps is that of its allocations.
struct TextRange {
  uint64_t lo;
  uint64_t hi;
};
TextRange g_allocator;

int find_allocator(dl_phdr_info* info, size_t, void*) {
  const auto malloc = reinterpret_cast<uint64_t>(g_next_malloc.load());
  for (uint32_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uint64_t lo = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && malloc >= lo && malloc < lo + header.p_memsz) {
      g_allocator = {lo, lo + header.p_memsz};
      return 1;
    }
  }
  return 0;
}

constexpr size_t kLeastMapping = 64 * 1024;

// Memory to work in, neither a stack nor address space that is only kept free.
bool is_working_memory(size_t size, int protection, int flags, uint64_t caller) {
  constexpr int kWanted = MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr int kUnwanted =
      MAP_FIXED | MAP_STACK | MAP_NORESERVE | MAP_GROWSDOWN | 0x100000 /* MAP_FIXED_NOREPLACE */;
  const bool by_allocator = caller >= g_allocator.lo && caller < g_allocator.hi;
  return size >= kLeastMapping && (flags & kWanted) == kWanted && (flags & kUnwanted) == 0 &&
         (protection & PROT_WRITE) != 0 && !by_allocator;
}

// Of the function that it stands in, to which a slot has led.
#define XPURUN_CALLER                                                                   \
  HeapCaller {                                                                          \
    reinterpret_cast<uint64_t>(__builtin_return_address(0)), __builtin_frame_address(0) \
  }
#define XPURUN_SLOW __attribute__((noinline, cold))

XPURUN_SLOW void* malloc_with_look(size_t size) {
  void* memory = g_next_malloc.load(std::memory_order_relaxed)(size);
  heap_allocated(memory, size, XPURUN_CALLER);
  return memory;
}

XPURUN_SLOW void* calloc_with_look(size_t count, size_t size) {
  void* memory = g_next_calloc.load(std::memory_order_relaxed)(count, size);
  heap_allocated(memory, count * size, XPURUN_CALLER);
  return memory;
}

XPURUN_SLOW void* realloc_with_look(void* memory, size_t size) {
  const HeapSample sample = memory != nullptr ? heap_frees(memory) : HeapSample();
  void* to = g_next_realloc.load(std::memory_order_relaxed)(memory, size);
  if (to == nullptr && size != 0) {
    heap_keeps(memory, sample);
  } else {
    heap_allocated(to, size, XPURUN_CALLER);
  }
  return to;
}

XPURUN_SLOW void free_with_look(void* memory) {
  heap_frees(memory);
  g_next_free.load(std::memory_order_relaxed)(memory);
}

// True: the allocation is no sample, and is counted.
inline bool passes(size_t size) {
  HeapThread& thread = t_heap;
  if (thread.left <= size) {
    return false;
  }
  thread.left -= size;
  return true;
}

// Uncommon functions make no difference between their calls.
void* looked_at(void* memory, size_t size, const HeapCaller& caller) {
  if (memory != nullptr && !passes(size)) {
    heap_allocated(memory, size, caller);
  }
  return memory;
}

namespace sampling {

void* malloc(size_t size) {
  return passes(size) ? g_next_malloc.load(std::memory_order_relaxed)(size) : malloc_with_look(size);
}

void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  const bool is_small = !__builtin_mul_overflow(count, size, &bytes) && passes(bytes);
  return is_small ? g_next_calloc.load(std::memory_order_relaxed)(count, size)
                  : calloc_with_look(count, size);
}

void* realloc(void* memory, size_t size) {
  const bool is_plain = (memory == nullptr || !may_be_heap_sample(memory)) && passes(size);
  return is_plain ? g_next_realloc.load(std::memory_order_relaxed)(memory, size)
                  : realloc_with_look(memory, size);
}

void free(void* memory) {
  return may_be_heap_sample(memory) ? free_with_look(memory)
                                    : g_next_free.load(std::memory_order_relaxed)(memory);
}

__attribute__((noinline)) int posix_memalign(void** out, size_t alignment, size_t size) {
  const int result = g_next_posix_memalign.load(std::memory_order_relaxed)(out, alignment, size);
  if (result == 0) {
    looked_at(*out, size, XPURUN_CALLER);
  }
  return result;
}

__attribute__((noinline)) void* aligned_alloc(size_t alignment, size_t size) {
  return looked_at(g_next_aligned_alloc.load(std::memory_order_relaxed)(alignment, size), size,
                   XPURUN_CALLER);
}

__attribute__((noinline)) void* memalign(size_t alignment, size_t size) {
  return looked_at(g_next_memalign.load(std::memory_order_relaxed)(alignment, size), size, XPURUN_CALLER);
}

__attribute__((noinline)) void* valloc(size_t size) {
  return looked_at(g_next_valloc.load(std::memory_order_relaxed)(size), size, XPURUN_CALLER);
}

void look_at_mapping(void* memory, size_t size, int protection, int flags, const HeapCaller& caller) {
  if (memory != MAP_FAILED && is_working_memory(size, protection, flags, caller.address)) {
    looked_at(memory, size, caller);
  }
}

__attribute__((noinline)) void* mmap(void* address, size_t size, int protection, int flags, int fd,
                                     off_t offset) {
  void* memory = g_next_mmap.load(std::memory_order_relaxed)(address, size, protection, flags, fd, offset);
  look_at_mapping(memory, size, protection, flags, XPURUN_CALLER);
  return memory;
}

__attribute__((noinline)) void* mmap64(void* address, size_t size, int protection, int flags, int fd,
                                       off_t offset) {
  void* memory = g_next_mmap64.load(std::memory_order_relaxed)(address, size, protection, flags, fd, offset);
  look_at_mapping(memory, size, protection, flags, XPURUN_CALLER);
  return memory;
}

// A sample whose begin is unmapped counts as freed.
int munmap(void* address, size_t size) {
  const HeapSample sample = may_be_heap_sample(address) ? heap_frees(address) : HeapSample();
  const int result = g_next_munmap.load(std::memory_order_relaxed)(address, size);
  if (result != 0) {
    heap_keeps(address, sample);
  }
  return result;
}

void* mremap(void* address, size_t size, size_t new_size, int flags, void* to) {
  HeapSample sample = may_be_heap_sample(address) ? heap_frees(address) : HeapSample();
  void* memory = g_next_mremap.load(std::memory_order_relaxed)(address, size, new_size, flags, to);
  if (sample.bytes != 0) {
    const bool is_whole = sample.bytes == size && memory != MAP_FAILED;
    sample.bytes = is_whole ? new_size : sample.bytes;
    heap_keeps(memory != MAP_FAILED ? memory : address, sample);
  }
  return memory;
}

}  // namespace sampling

}  // namespace

void find_heap_functions() {
#define XPURUN_FIND(name, type) XPURUN_LOOK_UP(name);
  XPURUN_HEAP_FUNCTIONS(XPURUN_FIND)
#undef XPURUN_FIND
  stop_heap_functions();
}

void stop_heap_functions() {
#define XPURUN_STOP(name, type)          \
  if (type* next = g_next_##name.load()) \
    xpurun_heap_##name.store(next);
  XPURUN_HEAP_FUNCTIONS(XPURUN_STOP)
#undef XPURUN_STOP
  if (g_keeps_first.load()) {
    xpurun_heap_free.store(first::free);
    xpurun_heap_realloc.store(first::realloc);
  }
}

void sample_heap_functions() {
  bool is_complete = !g_keeps_first.load();
#define XPURUN_IS_KNOWN(name, type) is_complete = is_complete && g_next_##name.load() != nullptr;
  XPURUN_HEAP_FUNCTIONS(XPURUN_IS_KNOWN)
#undef XPURUN_IS_KNOWN
  if (!is_complete) {
    return;
  }
  dl_iterate_phdr(find_allocator, nullptr);
#define XPURUN_SAMPLE(name, type) xpurun_heap_##name.store(sampling::name);
  XPURUN_HEAP_FUNCTIONS(XPURUN_SAMPLE)
#undef XPURUN_SAMPLE
}

}  // namespace xpurun::preload
