// TargetRepair: takes back the SIGSTOP that a debugger left in a process. Create the object before the
// debugger starts; call after_tracer() when no tracer is left. Any process of xpurun may do the repair, not
// only the tracer's parent. Signals go through a pidfd, so a reused pid is never hit.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"

#include <optional>

namespace xpurun::stackdump {

// How the debugger ended.
enum class TracerEnd {
  detached,  // exited by itself and has taken back its stops
  killed,    // by a signal from xpurun or from another process
};

class TargetRepair {
 public:
  explicit TargetRepair(base::Pid pid);  // 0: no process

  // Does nothing to a process that was already stopped before the debugger started.
  void after_tracer(TracerEnd end) const;
  // Whether the process has ended. Without a pidfd (before Linux 5.3), a reused pid counts as the process.
  bool target_gone() const;

 private:
  base::Pid pid_;
  base::UniqueFd pidfd_;
  bool stopped_before_ = false;
};

// A thread of the process in uninterruptible sleep (state D), or 0. Such a thread cannot stop, so a debugger
// that attaches to it blocks, and the other threads stay stopped for as long.
std::optional<base::Tid> uninterruptible_thread(base::Pid pid);

}  // namespace xpurun::stackdump
