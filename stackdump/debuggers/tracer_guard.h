// TracerGuard: a process between us and a debugger that outlives both. The guard starts the debugger. When
// the time limit passes or when we are gone, the guard ends the debugger and all processes that the debugger
// started, and then repairs the target. The guard has its own session, so signals to our process group do not
// reach the guard. If the guard itself is killed, we do its work.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "stackdump/debuggers/target_repair.h"

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace xpurun::stackdump {

enum class ToolEnd {
  exited,     // by itself
  timed_out,  // ended by us
  asleep,     // ended by us: the target has a thread in uninterruptible sleep
  lost,       // the guard was killed, and we ended the tool
};

// Passed through a pipe as raw bytes.
struct GuardReport {
  ToolEnd end = ToolEnd::lost;
  int wait_status = 0;    // exit status of the tool, if it exited
  base::Tid asleep = 0;   // the thread
  bool finished = false;  // the tool is dead and the target repaired; otherwise the guard continues to do so
};
static_assert(std::is_trivially_copyable_v<GuardReport>);

struct GuardedTool {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  int64_t limit_ns = 0;
  base::Pid target = 0;  // the process that the tool traces; 0: none
  int out = -1;          // standard output and error of the tool
  int err = -1;
};

class TracerGuard {
 public:
  // The caller must be single-threaded.
  static base::Result<TracerGuard> start(const GuardedTool& tool);
  TracerGuard(TracerGuard&&) noexcept = default;
  TracerGuard& operator=(TracerGuard&&) = delete;
  TracerGuard(const TracerGuard&) = delete;
  TracerGuard& operator=(const TracerGuard&) = delete;

  // Readable when there is a report, or when the guard has died.
  int report_fd() const { return report_.get(); }
  // Blocks until the report is there.
  GuardReport report();

 private:
  explicit TracerGuard(base::Pid target) : repair_(target) {}

  TargetRepair repair_;
  base::Pid pid_ = 0;
  base::UniqueFd lifeline_;  // closed when we die, which tells the guard
  base::UniqueFd report_;
};

}  // namespace xpurun::stackdump
