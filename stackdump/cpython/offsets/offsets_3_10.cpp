#include "stackdump/cpython/offsets/offsets.h"

namespace xpurun::stackdump {

const Offsets kOffsets310 = {
    .minor = 10,
    .chain = FrameChain::objects,
    .lines = LineFormat::linetable,
    .runtime_interpreters = 32,
    .runtime_gil = 360,
    .interp_id = 24,
    .interp_next = 0,
    .interp_threads = 8,
    .interp_gc_collecting = 816,
    .interp_modules = 856,
    .interp_sysdict = 872,
    .thread_id = 176,
    .thread_frame = 24,
    .thread_size = 280,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instr = 96,
    .frame_size = 104,
    .frame_locals = 352,
    .frame_globals = 48,
    .code_firstlineno = 40,
    .code_filename = 104,
    .code_name = 112,
    .code_linetable = 120,
    .code_size = 128,
    .code_constants = 56,
    .code_names = 64,
    .code_local_names = 72,
    .code_cell_names = 88,
    .code_free_names = 80,
    .dict_log2_keys = false,
    .values_items = 0,
    .attributes = Attributes::by_offset,
};

}  // namespace xpurun::stackdump
