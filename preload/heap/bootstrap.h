// What serves allocations while the linker looks up the functions that will serve all others: a small piece
// of memory that is never given back, and the system calls.
#pragma once

#include <stddef.h>
#include <sys/types.h>

namespace xpurun::preload {

// Zeroed; null if there is no room. `alignment` 0: that of malloc().
void* bootstrap_allocate(size_t size, size_t alignment);
// Of an allocation of that kind; 0: `memory` is none.
size_t bootstrap_size(const void* memory);

void* bootstrap_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset);
int bootstrap_munmap(void* address, size_t size);
void* bootstrap_mremap(void* address, size_t size, size_t new_size, int flags, void* to);

}  // namespace xpurun::preload
