#include "launcher/options/exit_status.h"

#include <sys/wait.h>

namespace xpurun::launcher {

int exit_status(const JobStatus& job) {
  // Checked first, as timeout(1) does: a job that answers SIGTERM with exit(0) did not finish its work.
  if (job.end == JobEnd::hang_ended) {
    return kExitHangEnded;
  }
  if (!job.wait_status.known()) {
    return kExitOwnFailure;
  }
  if (job.wait_status.signaled()) {
    return kExitSignalBase + job.wait_status.signal();
  }
  const int code = job.wait_status.exit_code();
  if (code != 0 && job.root_cause_signal != 0) {
    return kExitSignalBase + job.root_cause_signal;
  }
  return code;
}

}  // namespace xpurun::launcher
