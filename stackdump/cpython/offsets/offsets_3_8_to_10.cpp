#include "stackdump/cpython/offsets/offsets.h"

namespace xpurun::stackdump {

namespace {

constexpr Offsets k38 = {
    .minor = 8,
    .chain = FrameChain::objects,
    .lines = LineFormat::lnotab,
    .runtime_interpreters = 32,
    .runtime_gil = 1160,
    .runtime_gc_collecting = 544,
    .interp_id = 16,
    .interp_next = 0,
    .interp_threads = 8,
    .interp_modules = 56,
    .interp_sysdict = 72,
    .thread_id = 176,
    .thread_handled = 144,
    .thread_frame = 24,
    .thread_size = 264,
    .frame_previous = 24,
    .frame_code = 32,
    .frame_instr = 104,
    .frame_size = 112,
    .frame_locals = 360,
    .frame_globals = 48,
    .code_firstlineno = 40,
    .code_filename = 104,
    .code_name = 112,
    .code_linetable = 120,
    .code_argument_count = 16,
    .code_size = 128,
    .code_constants = 56,
    .code_names = 64,
    .code_local_names = 72,
    .code_cell_names = 88,
    .code_free_names = 80,
    .dict_log2_keys = false,
    .values_items = 0,
    .attributes = Attributes::by_offset,
    .handled_value = 8,
    .handled_previous = 24,
    .exception_traceback = 32,
    .frame_of_object = kAbsent,
};

constexpr Offsets in_3_9() {
  Offsets o = k38;
  o.minor = 9;
  o.runtime_gil = 360;
  o.runtime_gc_collecting = kAbsent;
  o.interp_id = 24;
  o.interp_gc_collecting = 816;
  o.interp_modules = 856;
  o.interp_sysdict = 872;
  return o;
}

constexpr Offsets in_3_10() {
  Offsets o = in_3_9();
  o.minor = 10;
  o.lines = LineFormat::linetable;
  o.thread_size = 280;
  o.frame_instr = 96;
  o.frame_size = 104;
  o.frame_locals = 352;
  return o;
}

}  // namespace

constinit const Offsets kOffsets38 = k38;
constinit const Offsets kOffsets39 = in_3_9();
constinit const Offsets kOffsets310 = in_3_10();

}  // namespace xpurun::stackdump
