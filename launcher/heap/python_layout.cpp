#include "launcher/heap/python_layout.h"

#include "stackdump/resolve/position.h"

namespace xpurun::launcher {

static_assert(static_cast<uint32_t>(stackdump::FrameChain::objects) == wire::kHeapFrameObjects &&
              static_cast<uint32_t>(stackdump::FrameChain::cframe_entry) == wire::kHeapCframeEntry &&
              static_cast<uint32_t>(stackdump::FrameChain::cframe_shim) == wire::kHeapCframeShim &&
              static_cast<uint32_t>(stackdump::FrameChain::shim) == wire::kHeapShim);

void tell_python_layout(base::Pid pid, wire::HeapPython& out) {
  auto reader = stackdump::PositionReader::open(pid);
  if (!reader) {
    return;
  }
  const auto position = reader->read();
  if (!position || !position->has_python || position->file.empty()) {
    return;
  }
  const stackdump::Offsets& o = reader->offsets();
  // Threads of a build without a GIL run at the same time, and have their own copies of the instructions.
  if (o.object_type != stackdump::Offsets().object_type) {
    return;
  }
  constexpr int kFirstWithUnits = 10;  // f_lasti counts units of two bytes in 3.10
  out.chain = static_cast<uint32_t>(o.chain);
  out.thread_frame = o.thread_frame;
  out.cframe_current = o.cframe_current;
  out.frame_previous = o.frame_previous;
  out.frame_code = o.frame_code;
  out.frame_instr = o.frame_instr;
  out.frame_boundary = o.frame_boundary;
  out.frame_tagged = o.frame_tagged ? 1 : 0;
  out.instruction_bytes = o.minor >= kFirstWithUnits ? 2 : 1;
  out.code_instructions = o.code_instructions;
  out.code_firstlineno = o.code_firstlineno;
  out.code_filename = o.code_filename;
  out.code_name = o.code_name;
  out.object_type = o.object_type;
  out.unicode_length = o.unicode_length;
  out.unicode_state = o.unicode_state;
  out.unicode_kind_shift = o.unicode_kind_shift;
  out.unicode_ascii_data = o.unicode_ascii_data;
  out.unicode_compact_data = o.unicode_compact_data;
  out.ready.store(1, std::memory_order_release);
}

}  // namespace xpurun::launcher
