// Puts the Python frames of a thread between its native frames. Since 3.11 each group of Python frames
// carries an address inside the native frame that evaluates it, so the group belongs to the frame whose [sp,
// cfa) contains that address: neither symbol names nor counting are needed. Older versions are matched by
// order. Never fails: groups without a matching frame are kept, after a marker. Pure function.
#pragma once

#include "stackdump/cpython/frames.h"
#include "stackdump/native/unwinder.h"

#include <string>
#include <vector>

namespace xpurun::stackdump {

struct MergedItem {
  enum class Kind { native, python, marker };
  Kind kind = Kind::native;
  size_t native = 0;  // index into NativeStack::frames
  size_t group = 0;   // indices into the groups
  size_t frame = 0;
  bool eval = false;   // this native frame evaluates the Python frames directly before it
  std::string marker;  // text, without brackets
};

// `is_eval[i]`: the symbol name of native frame i is the evaluation function; used for groups without anchor.
std::vector<MergedItem> interleave(const NativeStack& native, const std::vector<FrameGroup>& groups,
                                   const std::vector<bool>& is_eval);

}  // namespace xpurun::stackdump
