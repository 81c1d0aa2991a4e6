// Where CPython keeps what we read, one table per minor version (x86-64, release builds). Compiled from each
// version's own internal headers; docs/stackdump.md names the sources. kAbsent marks what a version lacks.
#pragma once

#include <cstdint>

namespace xpurun::stackdump {

inline constexpr uint32_t kAbsent = 0xffffffff;

// How the frames of a thread hang together.
enum class FrameChain {
  objects,       // <= 3.10: tstate->frame, heap objects, one native eval frame each
  cframe_entry,  // 3.11: tstate->cframe->current_frame; is_entry ends the frames of one native eval frame
  cframe_shim,   // 3.12: the same start; a shim frame on the C stack ends them
  shim,          // >= 3.13: tstate->current_frame; shim as in 3.12
};

enum class LineFormat {
  lnotab,     // <= 3.9: (address step, signed line step)
  linetable,  // 3.10: (address step, signed line step or -128 "no line")
  locations,  // >= 3.11: lines and columns
};

struct Offsets {
  int minor = 0;  // of Python 3
  FrameChain chain = FrameChain::shim;
  LineFormat lines = LineFormat::locations;

  uint32_t runtime_interpreters = kAbsent;
  uint32_t runtime_gil = kAbsent;            // the GIL itself, <= 3.11
  uint32_t runtime_gc_collecting = kAbsent;  // 3.8
  uint32_t interp_next = kAbsent;
  uint32_t interp_threads = kAbsent;
  uint32_t interp_gil = kAbsent;  // pointer to the GIL, >= 3.12
  uint32_t interp_gc_collecting = kAbsent;
  uint32_t interp_modules = kAbsent;  // sys.modules, a dict
  uint32_t gil_holder = 0;
  uint32_t gil_locked = 8;

  uint32_t thread_next = 8;
  uint32_t thread_interp = 16;
  uint32_t thread_id = kAbsent;         // pthread_self()
  uint32_t thread_native_id = kAbsent;  // gettid() in the process's own PID namespace, >= 3.11
  uint32_t thread_chunk = kAbsent;      // datastack_chunk; datastack_top follows it, >= 3.11
  uint32_t thread_frame = kAbsent;      // see FrameChain
  uint32_t thread_size = 360;           // as much of it as we read

  uint32_t cframe_current = kAbsent;
  uint32_t cframe_previous = kAbsent;

  uint32_t frame_previous = kAbsent;
  uint32_t frame_code = kAbsent;
  uint32_t frame_instr = kAbsent;     // pointer, or f_lasti (int) with FrameChain::objects
  uint32_t frame_boundary = kAbsent;  // is_entry (3.11) or owner (>= 3.12)
  uint32_t frame_size = 80;           // as much of it as we read

  uint32_t code_firstlineno = kAbsent;
  uint32_t code_filename = kAbsent;
  uint32_t code_name = kAbsent;  // co_qualname where there is one
  uint32_t code_linetable = kAbsent;
  uint32_t code_instructions = kAbsent;  // co_code_adaptive, >= 3.11
  uint32_t code_size = 208;              // as much of it as we read

  uint32_t bytes_size = 16;
  uint32_t bytes_data = 32;
  uint32_t unicode_length = 16;
  uint32_t unicode_state = 32;
  uint32_t unicode_ascii_data = 48;    // behind a compact ASCII string's header
  uint32_t unicode_compact_data = 72;  // behind any other compact string's header
};

extern const Offsets kOffsets38;
extern const Offsets kOffsets39;
extern const Offsets kOffsets310;
extern const Offsets kOffsets311;
extern const Offsets kOffsets312;

// Null for versions whose layout we do not know (or that describe themselves, see debug_offsets.h).
const Offsets* offsets_for_minor(int minor);

}  // namespace xpurun::stackdump
