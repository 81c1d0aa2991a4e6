#include "stackdump/cpython/offsets.h"

namespace xpurun::stackdump {

const Offsets kOffsets312 = {
    .minor = 12,
    .chain = FrameChain::cframe_shim,
    .lines = LineFormat::locations,
    .runtime_interpreters = 40,
    .interp_next = 0,
    .interp_threads = 72,
    .interp_gil = 384,
    .interp_gc_collecting = 312,
    .interp_modules = 944,
    .gil_holder = 8,
    .gil_locked = 16,
    .thread_id = 136,
    .thread_native_id = 144,
    .thread_chunk = 232,
    .thread_frame = 56,
    .thread_size = 288,
    .cframe_current = 0,
    .cframe_previous = 8,
    .frame_previous = 8,
    .frame_code = 0,
    .frame_instr = 56,
    .frame_boundary = 70,
    .code_firstlineno = 68,
    .code_filename = 112,
    .code_name = 128,
    .code_linetable = 136,
    .code_instructions = 192,
    .code_size = 200,
    .unicode_ascii_data = 40,
    .unicode_compact_data = 56,
};

}  // namespace xpurun::stackdump
