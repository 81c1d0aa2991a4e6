// WaitReason: who can end the wait of a rank's main thread, judged by its Python frames and its system call.
// Pure. The functions that wait are those of the diagnosis (report/diagnosis/waits/wait_patterns.h).
#pragma once

#include "common/model/dump_manifest.h"
#include "launcher/watch/kernel_wait.h"
#include "stackdump/resolve/position.h"

#include <vector>

namespace xpurun::launcher {

enum class WaitTarget {
  nobody,   // it does not wait, or in a file, a socket, a single sleep
  peers,    // other ranks, a GPU
  helpers,  // threads and processes of its own
  outside,  // whoever writes to its input, connects, sends it an event or makes what it polls for
};

struct WaitReason {
  WaitTarget target = WaitTarget::nobody;
  model::OutsideWait outside = model::OutsideWait::none;
};

struct WaitSigns {
  KernelWaitKind kernel = KernelWaitKind::none;
  bool wakes = false;        // again and again without getting anywhere, as a loop with a sleep in it
  bool has_helpers = false;  // processes of its own
};
WaitReason wait_reason(const std::vector<stackdump::CodeName>& innermost_first, const WaitSigns& signs);

}  // namespace xpurun::launcher
