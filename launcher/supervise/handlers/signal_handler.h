// SignalHandler: the supervisor's reaction to each signal that it receives. Event loop's thread only.
#pragma once

#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/options/run_options.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/signals.h"
#include "launcher/processes/death_ledger.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <string>
#include <utility>

namespace xpurun::launcher {

class SignalHandler {
 public:
  struct Parts {
    const EventLoop& loop;
    const ProcessTable& table;
    DeathLedger& ledger;
    const JobState& job;
    const RunOptions& options;
    model::RunDir dir;         // of the run, as the user knows it
    base::MonoNs started = 0;  // start of the run
  };
  struct Hooks {
    std::function<void()> child_ended;
    // Before the first signal that ends the job: whether the ranks have stood still.
    std::function<void()> look_for_stall;
    // The ranks of other nodes that have been still for these seconds.
    std::function<std::vector<model::StillElsewhere>(double seconds)> still_elsewhere;
    std::function<void(DumpRequest)> dump;
    std::function<void()> hide_status_line;
    std::function<void()> terminal_hung_up;
    std::function<bool()> give_up_logs;    // our streams may have no reader; false: there is no relay
    std::function<void()> stop_notifying;  // ends the programs that the end of the run waits for
    std::function<void()> kill_job;
    std::function<void()> detach;  // from a job that xpurun has not started
    std::function<void(const std::string&)> say;
  };

  // Ranks that have been still for this time when the user ends the job stand still.
  static constexpr double kStillS = 10;

  SignalHandler(Parts parts, Hooks hooks) : parts_(std::move(parts)), hooks_(std::move(hooks)) {}

  void received(const ReceivedSignal& signal);
  // Whether SIGINT, SIGTERM or SIGHUP has come.
  bool was_interrupted() const { return last_interrupt_ != 0; }
  // The first of them that the command does not ignore; if it ignores all, the latest.
  model::Interrupt first_interrupt() const { return first_; }
  // About ranks that live this long after the command's end: those of a job that the user has ended must not
  // stay behind. They get the grace time if the signal has reached them.
  LateRanks late_ranks(double since_end_s);

 private:
  DumpRequest dump_request() const;
  void interrupt(const ReceivedSignal& signal);
  void hang_up();
  void stop_with_the_job();
  void tell_late_ranks(bool reached);
  void look_for_deaf_command(int signal);

  Parts parts_;
  Hooks hooks_;
  base::MonoNs last_interrupt_ = 0;
  model::Interrupt first_;
  bool command_ignores_first_ = false;
  bool told_late_ranks_ = false;
};

}  // namespace xpurun::launcher
