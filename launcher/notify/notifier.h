// Notifier: runs the user's programs about the run: the command of --on-event for each event, the exit
// plug-ins of a failed run. They delay neither the job nor the verdict; only the end of xpurun itself waits,
// at most for the time limit. Event loop's thread only.
#pragma once

#include "launcher/notify/event_commands.h"
#include "launcher/notify/job_events.h"
#include "launcher/notify/plugins.h"
#include "launcher/os/timer.h"
#include "launcher/output/messages.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class Notifier {
 public:
  struct Parts {
    EventLoop& loop;
    const ProcessTable& table;
    const DeathLedger& ledger;
    Journal& journal;
    const RunOptions& options;
    Messages& messages;
  };

  // `directory` of the run is absolute.
  Notifier(Parts parts, LimitedProgram::Setup setup, std::string directory);
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  // The facts are passed in here, whether programs are wanted or not.
  JobEvents& events() { return events_; }
  bool busy() const { return commands_.busy() || plugins_.busy(); }
  // The last verdict has been printed and everything is on disk: runs the programs for the last event and the
  // plug-ins. Then prints the plug-ins' output and calls `done`: at once if there are no programs, after the
  // time limit at the latest.
  void end(std::function<void()> done);
  void give_up(const std::string& why);
  // Call for every reaped child. Returns whether the pid was one of the programs.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  bool failed() const;
  void say_results() const;
  void end_if_idle();

  Parts parts_;
  LimitedProgram::Setup setup_;
  std::string directory_;
  EventCommands commands_;
  JobEvents events_;
  Plugins plugins_;
  std::function<void()> done_;
  Timer deadline_{parts_.loop};
};

}  // namespace xpurun::launcher
