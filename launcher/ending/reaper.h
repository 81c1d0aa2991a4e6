// Reaper: the only place that waits for children: the command, xpurun's helpers, and orphans that a subreaper
// inherits. It records the deaths of all processes of the job in order. Event loop's thread only.
#pragma once

#include "launcher/journal/journal.h"
#include "launcher/os/event_loop.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <optional>

namespace xpurun::launcher {

class Reaper {
 public:
  struct Parts {
    EventLoop& loop;
    ProcessTable& table;
    Journal& journal;
  };
  struct Hooks {
    std::function<bool(base::Pid)> may_be_helper;
    std::function<bool(base::Pid, base::WaitStatus)> helper_ended;  // true if the child was a helper
    // An orphan has ended that the table does not know: the job may have other unknown processes.
    std::function<void()> unknown_ended;
    // A process of the job has died; its record is complete. `failed`: the process failed
    // and is no follower.
    std::function<void(const TrackedProcess&, base::WaitStatus, bool failed)> died;
    std::function<void(base::WaitStatus)> command_ended;
  };

  Reaper(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  DeathLedger& ledger() { return ledger_; }

  // Waits for the end of a process that the table has found.
  void watch(const TrackedProcess& p);
  // Reaps all children that have ended. Call on SIGCHLD.
  void reap();
  // A process of the job has ended; `status` is empty if another process reaps it.
  void process_died(base::Pid pid, std::optional<base::WaitStatus> status);
  // At the end of the job: deaths whose pidfds have not been polled yet.
  void find_unnoticed_deaths();

 private:
  void pidfd_ready(base::Pid pid, int fd);
  void record_death(TrackedProcess& p, std::optional<base::WaitStatus> status);
  void record_what_came_before(base::Pid killed);

  Parts parts_;
  Hooks hooks_;
  DeathLedger ledger_;
};

}  // namespace xpurun::launcher
