// Offsets of the CPython structures that are read, one table per minor version (x86-64, release builds).
// Taken from the internal headers of each version; docs/stackdump.md names the sources. kAbsent marks a field
// that a version lacks.
#pragma once

#include <cstdint>

namespace xpurun::stackdump {

inline constexpr uint32_t kAbsent = 0xffffffff;

// How the frames of a thread are linked.
enum class FrameChain {
  objects,       // <= 3.10: tstate->frame, heap objects, one native eval frame each
  cframe_entry,  // 3.11: tstate->cframe->current_frame; is_entry ends the frames of one native eval frame
  cframe_shim,   // 3.12: the same start; a shim frame on the C stack ends a group
  shim,          // >= 3.13: tstate->current_frame; shim as in 3.12
};

// The place of an instance's attributes.
enum class Attributes {
  by_offset,      // <= 3.10: a dict at tp_dictoffset
  values_before,  // 3.11: values four words and a dict three words before the object
  tagged_before,  // 3.12: three words before the object, a dict or (marked in the lowest bit) values
  inline_values,  // >= 3.13: values behind the object, valid unless there is a dict before it
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
  uint32_t interp_id = kAbsent;              // int64_t, 0 is the main interpreter
  uint32_t interp_next = kAbsent;
  uint32_t interp_threads = kAbsent;
  uint32_t interp_gil = kAbsent;  // pointer to the GIL, >= 3.12
  uint32_t interp_gc_collecting = kAbsent;
  uint32_t interp_modules = kAbsent;  // sys.modules, a dict
  uint32_t interp_sysdict = kAbsent;  // the dict of the module sys
  uint32_t gil_holder = 0;
  uint32_t gil_locked = 8;

  uint32_t thread_next = 8;
  uint32_t thread_interp = 16;
  uint32_t thread_id = kAbsent;         // pthread_self()
  uint32_t thread_native_id = kAbsent;  // gettid() in the process's own PID namespace, >= 3.11
  uint32_t thread_handled = kAbsent;    // exc_info: stack of the exceptions being handled
  uint32_t thread_chunk = kAbsent;      // datastack_chunk; datastack_top follows it, >= 3.11
  uint32_t thread_frame = kAbsent;      // see FrameChain
  uint32_t thread_size = 360;           // number of bytes to read

  uint32_t cframe_current = kAbsent;
  uint32_t cframe_previous = kAbsent;

  uint32_t frame_previous = kAbsent;
  uint32_t frame_code = kAbsent;
  uint32_t frame_instr = kAbsent;     // pointer, or f_lasti (int) with FrameChain::objects
  uint32_t frame_boundary = kAbsent;  // is_entry (3.11) or owner (>= 3.12)
  uint32_t frame_size = 80;           // number of bytes to read
  uint32_t frame_locals = kAbsent;    // the local variables, object references
  uint32_t frame_globals = kAbsent;   // the dict of the module
  uint32_t frame_tlbc = kAbsent;      // number of the bytecode copy that runs, free-threaded >= 3.14
  bool frame_tagged = false;          // references carry tags in their lowest two bits, >= 3.14

  uint32_t code_firstlineno = kAbsent;
  uint32_t code_filename = kAbsent;
  uint32_t code_name = kAbsent;  // co_qualname where there is one
  uint32_t code_linetable = kAbsent;
  uint32_t code_instructions = kAbsent;    // co_code_adaptive, >= 3.11
  uint32_t code_tlbc = kAbsent;            // copies of the instructions for single threads, see frame_tlbc
  uint32_t code_argument_count = kAbsent;  // co_argcount, int
  uint32_t code_size = 208;                // number of bytes to read
  uint32_t code_constants = 24;            // tuple, includes the code objects of inner functions
  uint32_t code_names = 32;                // tuple of names of globals and attributes
  uint32_t code_local_names =
      kAbsent;  // tuple of names: all local variables, or (<= 3.10) those that are not cells
  uint32_t code_local_kinds = kAbsent;  // bytes, one per name, >= 3.11
  uint32_t code_cell_names = kAbsent;   // tuple, <= 3.10
  uint32_t code_free_names = kAbsent;   // tuple, <= 3.10

  uint32_t object_type = 8;
  uint32_t type_name = 24;
  uint32_t type_basicsize = 32;
  uint32_t type_flags = 168;
  uint32_t type_dictoffset = 288;
  uint32_t type_cached_keys = kAbsent;  // keys of split attribute tables, >= 3.11
  uint32_t module_dict = 16;
  uint32_t dict_used = 16;
  uint32_t dict_keys = 32;
  uint32_t dict_values = 40;
  bool dict_log2_keys = true;  // >= 3.11: sizes of key tables are stored as logarithms
  uint32_t values_items = 8;   // header of a split table's values, 0 before 3.13
  Attributes attributes = Attributes::inline_values;
  uint32_t managed_dict = 24;  // distance of the dict pointer before the object
  uint32_t sequence_size = 16;
  uint32_t tuple_items = 24;
  uint32_t list_items = 24;
  uint32_t set_used = 24;
  uint32_t float_value = 16;
  uint32_t long_size = 16;  // signed number of digits, or (>= 3.12) a tag word
  uint32_t long_digits = 24;
  uint32_t cell_content = 16;

  uint32_t handled_value = 0;     // exception in an entry of that stack; 8 before 3.11, where its type comes
                                  // first
  uint32_t handled_previous = 8;  // the entry below
  uint32_t exception_args = 24;   // tuple
  uint32_t exception_traceback = 40;  // 32 before 3.11, which has no notes
  uint32_t traceback_next = 16;
  uint32_t traceback_frame = 24;  // a frame object
  uint32_t traceback_instr = 32;  // tb_lasti, int, in bytes
  uint32_t traceback_line = 36;   // tb_lineno, int; -1: not computed yet, >= 3.11
  uint32_t frame_of_object = 24;  // the frame of a frame object, >= 3.11; kAbsent: both are the same

  uint32_t bytes_size = 16;
  uint32_t bytes_data = 32;
  uint32_t unicode_length = 16;
  uint32_t unicode_state = 32;
  uint32_t unicode_kind_shift = 2;     // in the state; compact and ascii follow the three bits of the kind
  uint32_t unicode_ascii_data = 48;    // after the header of a compact ASCII string
  uint32_t unicode_compact_data = 72;  // after the header of any other compact string
};

extern const Offsets kOffsets38;
extern const Offsets kOffsets39;
extern const Offsets kOffsets310;
extern const Offsets kOffsets311;
extern const Offsets kOffsets312;

// Null for versions with an unknown layout and for versions that describe themselves (debug_offsets.h).
const Offsets* offsets_for_minor(int minor);

}  // namespace xpurun::stackdump
