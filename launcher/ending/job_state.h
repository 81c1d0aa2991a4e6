// JobState: how far the job is from its start to the end of the supervisor. JobEnding changes it, other parts
// read it.
#pragma once

#include "common/base/os/wait_status.h"

namespace xpurun::launcher {

enum class JobPhase {
  running,    // the command lives
  settling,   // the command has ended; its last deaths, notices and processes are awaited
  settled,    // a dump that is under way is awaited
  draining,   // the relay repeats what the ranks have written
  drained,    // as settled, for a dump that began meanwhile
  reporting,  // run.json is complete, the last report is made
  telling,    // the last programs of the user run (--on-event, plug-ins)
  finished,   // the last files are awaited
};

struct JobState {
  JobPhase phase = JobPhase::running;
  bool ended_by_us = false;         // xpurun has sent TERM or KILL to all processes of the job
  base::WaitStatus command_status;  // unknown while the command lives

  bool has_ended() const { return phase != JobPhase::running; }
  bool is_ending() const { return has_ended() || ended_by_us; }
  bool is_recorded() const { return phase >= JobPhase::reporting; }
  bool may_write_logs() const { return phase < JobPhase::drained; }
};

}  // namespace xpurun::launcher
