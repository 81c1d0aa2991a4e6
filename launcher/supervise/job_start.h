// JobStart: starts the command with the preload library and, if wanted, with the relay of the ranks' output;
// or begins to watch a job that runs already. Event loop's thread only.
#pragma once

#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"
#include "launcher/spawn/inherited_state.h"
#include "launcher/spawn/spare_descriptors.h"
#include "launcher/supervise/handlers/job_logs.h"

#include <functional>
#include <signal.h>
#include <string>
#include <vector>

namespace xpurun::launcher {

class JobStart {
 public:
  struct Parts {
    Journal& journal;
    ProcessTable& table;
    JobLogs& logs;
    const RunOptions& options;
    const InheritedState& inherited;
    SpareDescriptors& spares;  // released for the start of the command
  };
  struct Setup {
    std::string directory;  // of the run, absolute
    sigset_t signal_mask{};
  };
  struct Hooks {
    std::function<void()> foreign_job_ended;  // before xpurun could watch the job
    std::function<void()> judge_now;
    std::function<void(const std::string&)> say;
  };

  JobStart(Parts parts, Setup setup, Hooks hooks)
      : parts_(parts), setup_(std::move(setup)), hooks_(std::move(hooks)) {}

  // `notice_path`: as of Listeners. After an error run.json says spawn_failed.
  base::Status start(const std::string& notice_path);
  // Call after the first discovery: says what is watched of a job that ran already.
  void watching();

 private:
  base::Status start_command(const std::string& notice_path);
  void attach();
  // Each rank gets pipes to the relay; the preload in each rank tells the ranks apart.
  void arrange_logs(std::vector<std::string>& env);

  Parts parts_;
  Setup setup_;
  Hooks hooks_;
};

}  // namespace xpurun::launcher
