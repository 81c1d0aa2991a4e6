#include "stackdump/cpython/offsets/offsets.h"

namespace xpurun::stackdump {

const Offsets kOffsets311 = {
    .minor = 11,
    .chain = FrameChain::cframe_entry,
    .lines = LineFormat::locations,
    .runtime_interpreters = 40,
    .runtime_gil = 368,
    .interp_id = 48,
    .interp_next = 0,
    .interp_threads = 16,
    .interp_gc_collecting = 848,
    .interp_modules = 888,
    .interp_sysdict = 904,
    .thread_id = 152,
    .thread_native_id = 160,
    .thread_handled = 120,
    .thread_chunk = 296,
    .thread_frame = 56,
    .thread_size = 360,
    .cframe_current = 8,
    .cframe_previous = 16,
    .frame_previous = 48,
    .frame_code = 32,
    .frame_instr = 56,
    .frame_boundary = 68,
    .frame_locals = 72,
    .frame_globals = 8,
    .code_firstlineno = 72,
    .code_filename = 112,
    .code_name = 128,
    .code_linetable = 136,
    .code_instructions = 184,
    .code_size = 192,
    .code_local_names = 96,
    .code_local_kinds = 104,
    .type_cached_keys = 872,
    .values_items = 0,
    .attributes = Attributes::values_before,
};

}  // namespace xpurun::stackdump
