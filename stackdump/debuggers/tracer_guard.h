// TracerGuard: a process between this process and a debugger that outlives both. The guard starts the
// debugger. When the time limit passes or this process dies, the guard ends the debugger and all processes
// that the debugger started, and then repairs the target. The guard has its own session, so signals to this
// process group do not reach it. If the guard itself is killed, this process does its work.
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
  timed_out,  // ended by the guard
  asleep,     // ended by the guard: the target has a thread in uninterruptible sleep
  lost,       // the guard was killed, and this process ended the tool
};

// Passed through a pipe as raw bytes.
struct GuardReport {
  ToolEnd end = ToolEnd::lost;
  int wait_status = 0;    // status of the tool, if it exited
  base::Tid asleep = 0;   // the thread
  bool finished = false;  // the tool is dead and the target repaired; otherwise the guard continues to do so
};
static_assert(std::is_trivially_copyable_v<GuardReport>);

struct GuardedTool {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  int64_t limit_ns = 0;
  int64_t detach_ns = 0;  // to detach after SIGTERM, before SIGKILL; 0: killed at once
  base::Pid target = 0;   // the process that the tool traces; 0: none
  int out = -1;           // standard output and error of the tool
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

  // Readable when the report has arrived, or when the guard has died.
  int report_fd() const { return report_.get(); }
  // Blocks until the report has arrived.
  GuardReport report();

 private:
  explicit TracerGuard(base::Pid target) : repair_(target) {}

  TargetRepair repair_;
  base::Pid pid_ = 0;
  base::UniqueFd lifeline_;  // closed when this process dies: the guard's signal to act
  base::UniqueFd report_;
};

}  // namespace xpurun::stackdump
