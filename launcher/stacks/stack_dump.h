// StackDump: one dump under way, as DumpCoordinator sees it. DumpJob is the real one.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"

#include <string>

namespace xpurun::launcher {

class StackDump {
 public:
  StackDump() = default;
  virtual ~StackDump() = default;
  StackDump(const StackDump&) = delete;
  StackDump& operator=(const StackDump&) = delete;

  // Reports the outcome later, from the loop, even if nothing could be started.
  virtual void start() = 0;
  // Ends the remaining helpers and does not wait long: a helper in uninterruptible sleep cannot be killed.
  virtual void give_up(const std::string& why) = 0;
  // Call for every reaped child. Returns whether the pid was a helper of this dump.
  virtual bool helper_ended(base::Pid pid, base::WaitStatus status) = 0;
};

}  // namespace xpurun::launcher
