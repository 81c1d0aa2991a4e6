// JobState: the phase of the job, from its start to the end of the supervisor. Only JobEnding changes it.
#pragma once

#include "common/base/os/wait_status.h"

namespace xpurun::launcher {

// What becomes of ranks that have outlived the command.
enum class LateRanks { stay, get_time, end };

enum class JobPhase {
  running,    // the command is alive
  settling,   // the command has ended; waits for its last deaths, notices and processes
  settled,    // waits for the dump in progress
  draining,   // the relay forwards the ranks' remaining output
  drained,    // like settled, for a dump that began in the meantime
  reporting,  // run.json is complete; the last report is being made
  notifying,  // the user's last programs are running (--on-event, plug-ins)
  finished,   // waits for the last files
};

struct JobState {
  JobPhase phase = JobPhase::running;
  bool ended_by_us = false;         // xpurun has sent TERM or KILL to all processes of the job
  bool detached = false;            // xpurun has stopped watching; the job goes on
  base::WaitStatus command_status;  // unknown while the command is alive, and often in a foreign job

  bool has_ended() const { return phase != JobPhase::running; }
  bool is_ending() const { return has_ended() || ended_by_us; }
  bool is_recorded() const { return phase >= JobPhase::reporting; }
  bool may_write_logs() const { return phase < JobPhase::drained; }
};

}  // namespace xpurun::launcher
