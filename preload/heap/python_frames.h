// The Python frames of this thread. The offsets of the interpreter's structures come from the supervisor,
// which has tried them on this process (HeapPython).
#pragma once

#include "common/wire/heap_segment.h"

#include <stdint.h>

namespace xpurun::preload {

struct HeapFrame {
  uint64_t address;     // of the code object; of a native frame the return address
  int32_t instruction;  // in bytes; -1: a native frame
};

void prepare_python_frames();
// Innermost first; 0 if the thread does not run Python.
uint32_t python_frames(const wire::HeapPython& python, HeapFrame* out, uint32_t most);
// What identifies the frame's line as long as its code object lives, and with all likelihood afterwards.
uint64_t python_frame_key(const wire::HeapPython& python, const HeapFrame& frame);
// Writes the names and the line.
void describe_python_frame(wire::HeapSegment& shared, const HeapFrame& frame, wire::HeapPlace& place);

}  // namespace xpurun::preload
