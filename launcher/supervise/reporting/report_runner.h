// ReportRunner: runs `xpurun report DIR --quiet --json` in a process of its own, so that the supervisor
// parses nothing heavy or hostile. One run at a time; a request during a run leads to one further run. The
// process starts when its input is on disk. If the disk is stalled or full, there is no report, and the
// handler learns so at once.
#pragma once

#include "common/base/language.h"
#include "common/base/os/wait_status.h"
#include "common/model/verdict.h"
#include "launcher/os/timer.h"
#include "launcher/spawn/helper_complaints.h"
#include "launcher/spawn/helper_process.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <optional>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

struct ReportResult {
  std::optional<model::Verdict> verdict;  // known even if the report could not be written
  std::optional<model::Verdict> spoken;   // the verdict in the language of the run, if not English
  std::string problem;                    // why there is no report; empty if there is a report
  std::string place;                      // where the report is, in words, if not in the run directory
  bool unfinished = false;                // the verdict comes before the report is written
};

class ReportRunner {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    HelperComplaints& complaints;
  };

  ReportRunner(Parts parts, std::string run_dir, sigset_t mask);
  ~ReportRunner();
  ReportRunner(const ReportRunner&) = delete;
  ReportRunner& operator=(const ReportRunner&) = delete;

  // `started` gets the pid. `ended` is called after each run, successful or not, and then `done` if no
  // further run is requested.
  void set_handlers(std::function<void(base::Pid)> started, std::function<void(const ReportResult&)> ended,
                    std::function<void()> done);
  // Called once for each report, as soon as it has a verdict: making the page takes longer.
  void on_verdict(std::function<void(const ReportResult&)> judged) { judged_ = std::move(judged); }
  // For tests: the program to run instead of our own. The other arguments follow.
  void set_program(std::string path) { program_ = std::move(path); }
  struct Options {
    bool page = true;       // false: only the verdict is made
    bool source = true;     // the report shows source lines
    bool shared = false;    // the group of the files may read the report
    bool of_steps = false;  // no report: the verdict on the steps of a job that runs
    base::Language language = base::Language::english;
  };
  void set_options(Options options) { options_ = options; }
  void request();
  bool busy() const { return waiting_ || helper_.pid() > 0; }
  // Ends the current run as failed. A process in uninterruptible sleep is left behind.
  void give_up(const std::string& why);
  // The reaper calls this. Returns whether the pid belongs to this object.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void written(Written how);
  void start();
  void read_output();
  void report_verdict();
  void expire();
  void finish(std::string problem);

  EventLoop& loop_;
  Storage& storage_;
  HelperComplaints& complaints_;
  std::string run_dir_;
  sigset_t mask_;
  // The link itself, not its target: xpurun may have been reinstalled since this run began.
  std::string program_ = "/proc/self/exe";
  Options options_;
  HelperProcess helper_;
  bool reading_ = false;
  std::string output_;
  bool has_verdict_ = false;  // passed to `judged_`
  bool waiting_ = false;      // waiting for the storage
  uint64_t round_ = 0;        // tells a stale answer of the storage from the current one
  bool again_ = false;
  Timer deadline_{loop_};
  std::function<void(base::Pid)> started_;
  std::function<void(const ReportResult&)> judged_;
  std::function<void(const ReportResult&)> ended_;
  std::function<void()> done_;
};

}  // namespace xpurun::launcher
