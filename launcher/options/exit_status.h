// The table of exit statuses, as pure functions. docs: xpurun-run(1), EXIT STATUS.
#pragma once

#include "common/base/os/wait_status.h"

namespace xpurun::launcher {

inline constexpr int kExitFailure = 1;       // ordinary failure of a subcommand other than run
inline constexpr int kExitUsage = 2;         // wrong usage of a subcommand other than run
inline constexpr int kExitHangEnded = 124;   // as timeout(1)
inline constexpr int kExitOwnFailure = 125;  // as env(1), timeout(1); also wrong usage of run
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitSignalBase = 128;

enum class JobEnd {
  by_itself,   // also by a signal that is not from xpurun
  hang_ended,  // --on-hang kill ended it
};

struct JobStatus {
  base::WaitStatus wait_status;  // of the command
  JobEnd end = JobEnd::by_itself;
  // Signal that killed the root-cause rank. 0 if no signal did, or if no launcher identified the ranks
  // (identity "single"): then the command's own status is complete.
  int root_cause_signal = 0;
};

int exit_status(const JobStatus& job);

}  // namespace xpurun::launcher
