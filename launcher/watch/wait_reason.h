// WaitReason: who can end the wait of a rank's main thread, judged by its Python frames and its system call.
// Pure. The functions that wait are those of the diagnosis (report/diagnosis/waits/wait_patterns.h).
#pragma once

#include "common/model/dump_manifest.h"
#include "launcher/watch/kernel_wait.h"
#include "launcher/watch/wait_target.h"
#include "stackdump/resolve/position.h"

#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct WaitReason {
  WaitTarget target = WaitTarget::nobody;
  model::OutsideWait outside = model::OutsideWait::none;
  friend bool operator==(const WaitReason&, const WaitReason&) = default;
};

// A file of a library whose event loop may wait for any time.
bool is_of_event_loop(std::string_view file);

struct WaitSigns {
  KernelWaitKind kernel = KernelWaitKind::none;
  bool wakes = false;        // wakes repeatedly without progress, as in a loop with a sleep
  bool has_helpers = false;  // has its own child processes
  bool listens = false;      // for connections, among others
  bool alone = false;  // an event loop that only the process itself could wake up, by its timers at most, in
                       // which no other thread runs Python
};
WaitReason wait_reason(const std::vector<stackdump::CodeName>& innermost_first, const WaitSigns& signs);

}  // namespace xpurun::launcher
