// VerdictHandler: records and prints a diagnosis, and acts on it. Event loop's thread only.
#pragma once

#include "common/model/verdict.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/output/ink.h"
#include "launcher/supervise/reporting/report_runner.h"

#include <functional>
#include <map>
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
    std::function<bool()> was_interrupted;  // the user ends the job: the end tells the verdict
    std::function<void()> end_the_job;      // because of a hang
    // Why the ranks cannot be restarted; empty if they can.
    std::function<std::string()> restart_obstacle;
    std::function<void()> restart_the_ranks;
    // A stall has a verdict (called again for a later verdict); a stall has passed.
    std::function<void(const model::Stall&)> hang_found;
    std::function<void(const model::Stall&)> hang_passed;
    // Evidence of living processes is being collected. The report after it decides whether the job ends.
    std::function<bool()> collecting_evidence;
    std::function<void(const model::Verdict&)> publish;  // to receivers of verdicts beside the terminal
    std::function<void()> reported;                      // a verdict has been printed
    std::function<void(const model::Verdict&)> say_sentence;
    std::function<void()> say_report;  // prints where the page of the run is
    std::function<void(const std::string&)> say;
  };

  VerdictHandler(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  VerdictHandler(const VerdictHandler&) = delete;
  VerdictHandler& operator=(const VerdictHandler&) = delete;

  // A report was made, or could not be made. There is a verdict in any case, without stacks if necessary.
  void take(const ReportResult& result);
  // Closes the stall; false if nothing is to be reported.
  bool stall_ended(model::Stall& stall);
  // The launcher has started again the ranks that `restart_the_ranks` ended.
  void ranks_restarted();
  // Because of a hang.
  void end_the_job();
  // At the end of the run, if there is anything to report.
  void print_end();

 private:
  void take_hang(const model::Verdict& verdict);
  void announce(const model::Verdict& verdict, int stall);
  bool is_news(const model::Verdict& verdict, int stall);
  void say_sentence_once(const model::Verdict& verdict, int stall);
  void say_title_once(const model::Verdict& verdict, int stall);
  model::Stall* stall_of(const model::Verdict& verdict);
  void report(const model::Verdict& verdict);
  void say_place();
  void publish(const model::Verdict& verdict);
  // The verdict in the language of the run.
  model::Verdict spoken(const model::Verdict& verdict) const;
  std::vector<std::string> source_lines(const model::CodeLocation& where) const;
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
  std::map<int, std::string> announced_;  // by stall: the facts of its last verdict printed
  std::string last_said_;                 // the last sentence printed
  std::string no_report_;                 // why the last report could not be written
  std::string place_;                     // where the last report is; empty: in the run directory
  bool unfinished_ = false;               // the last report is still being made
  bool owes_place_ = false;  // the place of the report with the last printed sentence is still to be printed
};

// The colour in which a verdict is printed.
std::optional<Ink::Colour> colour_of(const model::Verdict& verdict);
// Sends the verdict to the receivers beside the terminal: `log`, and systemd's journal.
void publish(const model::Verdict& verdict, const TerminationLog& log, const std::string& directory);

}  // namespace xpurun::launcher
