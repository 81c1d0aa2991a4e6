// JobEnding: ends the job's processes on request, and moves the job from the command's end to the end of the
// event loop, one phase after the other. Event loop's thread only.
#pragma once

#include "launcher/ending/job_state.h"
#include "launcher/ending/shutdown.h"
#include "launcher/os/event_loop.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/disk_watch.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class JobEnding {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    ProcessTable& table;
  };
  struct Hooks {
    std::function<void()> command_ended;              // immediately
    std::function<void(const std::string&)> give_up;  // the disk does not respond: end dump and report; the
                                                      // argument is the reason
    std::function<bool()> dumping;
    // About ranks that live this long after the command's end.
    std::function<LateRanks(double since_end_s)> late_ranks;
    // Releases held processes and relays all remaining output of the ranks. Calls `done` once.
    std::function<void(std::function<void()> done)> drain_logs;
    std::function<void()> record;          // completes run.json
    std::function<bool()> request_report;  // false if no report is needed
    std::function<bool()> reporting;
    std::function<void()> print_end;
    // Runs the notifications about the end. Calls `done` once.
    std::function<void(std::function<void()> done)> notify_of_end;
  };

  JobEnding(Parts parts, const std::string& run_dir, Hooks hooks);
  JobEnding(const JobEnding&) = delete;
  JobEnding& operator=(const JobEnding&) = delete;

  const JobState& state() const { return state_; }

  // TERM to all processes of the job, KILL after the grace time; kForever: no KILL.
  void terminate(double grace_s);
  // KILL to all processes of the job, repeated until none is left.
  void kill_now();
  // The terminal is gone: at the command's end, the rest of the foreground process group gets the signals
  // that the kernel sends when the leader of a session ends.
  void terminal_hung_up() { hung_up_ = true; }

  // Stops watching a job that goes on. No effect once the job has ended.
  void detach();
  // The command has been reaped. Only the first call counts.
  void command_ended(base::WaitStatus status);
  // Advances through as many phases as possible. Call when a dump has ended; does nothing while the command
  // lives.
  void proceed();
  // A report or the wait for other nodes has ended; the other one may go on.
  void report_done();

 private:
  void settle_or_wait();
  bool ranks_get_time();
  void record_and_report();
  void notify_of_the_end(std::function<void()> then);

  Parts parts_;
  std::string run_dir_;
  Hooks hooks_;
  Shutdown shutdown_;
  DiskWatch disk_watch_;
  JobState state_;
  bool hung_up_ = false;
  base::MonoNs ended_at_ = 0;  // the end of the command
};

}  // namespace xpurun::launcher
