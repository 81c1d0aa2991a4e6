#include "stackdump/cpython/offsets.h"

namespace xpurun::stackdump {

const Offsets kOffsets39 = {
    .minor = 9,
    .chain = FrameChain::objects,
    .lines = LineFormat::lnotab,
    .runtime_interpreters = 32,
    .runtime_gil = 360,
    .interp_next = 0,
    .interp_threads = 8,
    .interp_gc_collecting = 816,
    .interp_modules = 856,
    .thread_id = 176,
    .thread_frame = 24,
    .thread_size = 264,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instr = 104,
    .frame_size = 112,
    .code_firstlineno = 40,
    .code_filename = 104,
    .code_name = 112,
    .code_linetable = 120,
    .code_size = 128,
};

}  // namespace xpurun::stackdump
