// EventCommands: runs the command of --on-event for each event, a few at a time, and records the results in
// run.json and the log. Failures have no further effect. Event loop's thread only.
#pragma once

#include "common/model/notify/job_event.h"
#include "launcher/journal/journal.h"
#include "launcher/notify/limited_program.h"
#include "launcher/os/timer.h"

#include <deque>
#include <list>
#include <string>

namespace xpurun::launcher {

class EventCommands {
 public:
  struct Parts {
    EventLoop& loop;
    Journal& journal;
  };

  EventCommands(Parts parts, LimitedProgram::Setup setup, std::string command, double limit_s)
      : parts_(parts), setup_(std::move(setup)), command_(std::move(command)), limit_s_(limit_s) {}
  EventCommands(const EventCommands&) = delete;
  EventCommands& operator=(const EventCommands&) = delete;

  // Runs the command now, or when an earlier command has ended. If too many wait already, the event is
  // recorded as not reported.
  void report(const model::JobEvent& event);
  bool busy() const { return !running_.empty() || !waiting_.empty(); }
  // Called whenever the last command has ended.
  void on_idle(std::function<void()> idle) { idle_ = std::move(idle); }
  // Kills the running commands and drops those that wait.
  void give_up(const std::string& why);
  // Call for every reaped child. Returns whether the pid was one of the commands.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  struct Run {
    Run(const LimitedProgram::Setup& setup, const model::JobEvent& event)
        : program(setup), kind(event.event), at_s(event.at_s) {}
    LimitedProgram program;
    model::JobEventKind kind;
    double at_s;
    bool ended = false;
  };

  void start(const model::JobEvent& event);
  void record(const model::EventCommand& what);
  // Removes the runs that have ended and starts those that wait. Deferred to the loop, because a run must not
  // be destroyed inside its own handler.
  void sweep_later();

  Parts parts_;
  LimitedProgram::Setup setup_;
  std::string command_;
  double limit_s_;
  std::list<Run> running_;
  std::deque<model::JobEvent> waiting_;
  std::function<void()> idle_;
  Timer sweep_{parts_.loop};
};

}  // namespace xpurun::launcher
