// DeathHandler: reacts to the death of a process of the job. The first failure of a rank requests a dump,
// because the dump shows where the other ranks were before the launcher ends them. Event loop's thread only.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/processes/process_table.h"

#include <functional>

namespace xpurun::launcher {

class DeathHandler {
 public:
  struct Parts {
    const ProcessTable& table;
    DumpCoordinator& dumps;
    const JobState& job;
  };
  struct Hooks {
    std::function<void(base::Pid, base::WaitStatus)> ended;  // each process of the job
    std::function<void(const TrackedProcess&, base::WaitStatus)> failed;
    std::function<void(base::Rank)> rank_failed;  // by itself
  };

  DeathHandler(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}

  // `failed`: the process failed by itself; neither xpurun nor the launcher ended it.
  void process_died(const TrackedProcess& process, base::WaitStatus status, bool failed);

 private:
  Parts parts_;
  Hooks hooks_;
};

}  // namespace xpurun::launcher
