// VerdictHandler: what is recorded, printed and done when a diagnosis has come back. Event loop's thread
// only.
#pragma once

#include "common/model/verdict.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/output/ink.h"
#include "launcher/supervise/reporting/report_runner.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class VerdictHandler {
 public:
  struct Parts {
    Journal& journal;
    const JobState& job;
    const RunOptions& options;
  };
  struct Hooks {
    std::function<model::Verdict()> diagnose;  // from memory, without a report
    std::function<bool()> several_ranks;
    std::function<void()> end_the_job;  // because of a hang
    // Why the ranks cannot be restarted; empty if they can.
    std::function<std::string()> restart_obstacle;
    std::function<void()> restart_the_ranks;
    // A stall has a verdict, also once more with a later verdict; a stall has passed.
    std::function<void(const model::Stall&)> hang_found;
    std::function<void(const model::Stall&)> hang_passed;
    // Evidence of living processes is being collected. The report after it decides on the end of the job.
    std::function<bool()> collecting_evidence;
    std::function<void(const model::Verdict&)> publish;  // to whoever asks for verdicts beside the terminal
    std::function<void()> told;                          // a verdict has been printed
    std::function<void(const model::Verdict&)> say_sentence;
    std::function<void()> say_report;  // where the page of the run is
    std::function<void(const std::string&)> say;
  };

  VerdictHandler(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  VerdictHandler(const VerdictHandler&) = delete;
  VerdictHandler& operator=(const VerdictHandler&) = delete;

  // A report has been made, or could not be made: there is a verdict in any case, if need be without stacks.
  void take(const ReportResult& result);
  // Closes the open stall; false if none is open.
  bool stall_cleared();
  // The launcher has started the ranks again that `restart_the_ranks` has ended.
  void ranks_restarted();
  // Because of a hang.
  void end_the_job();
  // At the end of the run, if there is anything worth telling.
  void print_end();

 private:
  void take_hang(const model::Verdict& verdict);
  void announce(const model::Verdict& verdict);
  void tell(const model::Verdict& verdict);
  void say_place();
  void publish(const model::Verdict& verdict);
  // The verdict in the language of the run.
  model::Verdict spoken(const model::Verdict& verdict) const;
  std::string stacks_command(const model::Verdict& verdict) const;
  void say_progress_again(const model::Stall& stall);
  bool must_act(const model::Stall& stall) const;
  void act(model::Stall& stall, const model::Verdict& verdict);
  std::string restart_refused() const;
  void restart(model::Stall& stall);
  void end_the_job(model::Stall& stall);
  std::string how_processes_end() const;

  Parts parts_;
  Hooks hooks_;
  std::string published_;
  std::string spoken_for_;  // the sentence of the verdict that `spoken_` translates
  model::Verdict spoken_;
  std::string announced_;    // the last sentence printed
  std::string no_report_;    // why the last report could not be written
  std::string place_;        // of the last report; empty: the run directory
  bool unfinished_ = false;  // the last report is still being made
  bool owes_place_ = false;  // of the report with the last sentence printed
};

// In which a verdict is said.
std::optional<Ink::Colour> colour_of(const model::Verdict& verdict);
// Where the verdict goes beside the terminal: `log`, and systemd's journal.
void publish(const model::Verdict& verdict, const TerminationLog& log, const std::string& directory);

}  // namespace xpurun::launcher
