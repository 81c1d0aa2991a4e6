// CrashHandler: decides on each fatal signal that a preload library reports whether the process is held for a
// dump or may die at once. Event loop's thread only.
#pragma once

#include "common/wire/notice.h"
#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"

#include <functional>

namespace xpurun::launcher {

class CrashHandler {
 public:
  struct Parts {
    ProcessTable& table;
    Journal& journal;
    DeathLedger& ledger;
    DumpCoordinator& dumps;
    const JobState& job;
  };
  struct Hooks {
    std::function<void(base::Pid)> look_at;  // finds a process that the table does not know yet
    std::function<bool()> was_interrupted;   // the user has sent a signal that ends jobs
    std::function<void(base::Pid)> release;
  };

  CrashHandler(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}

  // The process is held until `release` is called with its pid, either now or after the dump.
  void process_crashed(const wire::Notice& notice, base::Pid pid, base::Tid tid);

 private:
  Parts parts_;
  Hooks hooks_;
  size_t crashed_helpers_ = 0;
};

}  // namespace xpurun::launcher
