// TargetRepair: takes back the SIGSTOP that a debugger left in a process. Create one before the debugger
// starts; call after_tracer() when no tracer is left. Any process of ours may do so, not only the one that
// traced: signals go through a pidfd, so that a reused pid is never hit.
#pragma once

#include "common/base/fd.h"
#include "common/base/ids.h"

#include <optional>

namespace xpurun::stackdump {

// How the debugger ended.
enum class TracerEnd {
  detached,  // exited by itself: it has taken its stops back
  killed,    // by a signal, ours or another's
};

class TargetRepair {
 public:
  explicit TargetRepair(base::Pid pid);  // 0: no process

  // Leaves a process alone that somebody else had stopped before.
  void after_tracer(TracerEnd end) const;
  bool target_gone() const;

 private:
  base::Pid pid_;
  base::UniqueFd pidfd_;
  bool stopped_before_ = false;
};

// A thread of the process in uninterruptible sleep (state D): it cannot stop, so a debugger that attaches
// to it blocks, and the other threads stand still for as long.
std::optional<base::Tid> uninterruptible_thread(base::Pid pid);

}  // namespace xpurun::stackdump
