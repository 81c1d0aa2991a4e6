// VerdictHandler: what is recorded, printed and done when a diagnosis has come back. Event loop's thread
// only.
#pragma once

#include "common/model/verdict.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/supervise/report_runner.h"

#include <functional>
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
    std::function<void(const std::string&)> say;
  };

  VerdictHandler(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  VerdictHandler(const VerdictHandler&) = delete;
  VerdictHandler& operator=(const VerdictHandler&) = delete;

  // A report has been made, or could not be made: there is a verdict in any case, if need be without stacks.
  void take(const ReportResult& result);
  // Closes the open stall; false if none is open.
  bool stall_cleared();
  // At the end of the run, if there is anything worth telling.
  void print_end();

 private:
  void take_hang(const model::Verdict& verdict);
  void announce(const model::Verdict& verdict);
  void say_progress_again(const model::Incident& incident);
  bool must_end_the_job(const model::Verdict& verdict) const;
  void end_the_job();

  Parts parts_;
  Hooks hooks_;
  std::string announced_;  // the last sentence printed
  std::string no_report_;  // why the last report could not be written
};

}  // namespace xpurun::launcher
