// The stack of an allocation: Python's frames if the thread runs Python (holds the GIL), else return
// addresses, by frame pointers as far as the program keeps them. Reads the thread's own memory; no lock, no
// allocation, and system calls only to learn where the thread's stack ends.
#pragma once

#include "common/wire/heap_segment.h"

#include <stdint.h>

namespace xpurun::preload {

// The call of the allocating function, as that function sees it.
struct HeapCaller {
  uint64_t address;   // return address
  const void* frame;  // of the function that the library has put there: saved frame pointer, return address
};

// From the constructor: the functions of Python, if the program has them.
void prepare_heap_stacks();
// The number of the stack in the segment; 0: no room.
uint32_t heap_stack(wire::HeapSegment& shared, const HeapCaller& caller);

}  // namespace xpurun::preload
