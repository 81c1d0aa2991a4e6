#include "preload/heap/bootstrap.h"

#include <atomic>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr size_t kRoom = 32 * 1024;
constexpr size_t kHead = 16;  // before each allocation: its size

alignas(64) char g_room[kRoom];
constinit std::atomic<size_t> g_used{0};

}  // namespace

void* bootstrap_allocate(size_t size, size_t alignment) {
  alignment = alignment < kHead ? kHead : alignment;
  const size_t most = size < kRoom && alignment < kRoom ? kHead + alignment + size : kRoom + 1;
  size_t begin = g_used.load();
  do {
    if (begin + most > kRoom) {
      errno = ENOMEM;
      return nullptr;
    }
  } while (!g_used.compare_exchange_weak(begin, begin + most));
  const auto first = reinterpret_cast<uintptr_t>(g_room + begin + kHead);
  char* memory = g_room + begin + kHead + ((first + alignment - 1) & ~(alignment - 1)) - first;
  const size_t known = size > 0 ? size : 1;
  memcpy(memory - kHead, &known, sizeof(known));
  return memory;
}

size_t bootstrap_size(const void* memory) {
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const auto begin = reinterpret_cast<uintptr_t>(g_room);
  if (at < begin + kHead || at >= begin + kRoom) {
    return 0;
  }
  size_t size = 0;
  memcpy(&size, static_cast<const char*>(memory) - kHead, sizeof(size));
  return size;
}

void* bootstrap_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, size, protection, flags, fd, offset));
}

int bootstrap_munmap(void* address, size_t size) {
  return static_cast<int>(syscall(SYS_munmap, address, size));
}

void* bootstrap_mremap(void* address, size_t size, size_t new_size, int flags, void* to) {
  return reinterpret_cast<void*>(syscall(SYS_mremap, address, size, new_size, flags, to));
}

}  // namespace xpurun::preload
