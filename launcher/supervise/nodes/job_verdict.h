// JobVerdict: the verdict of all nodes, as this node has it: made here from the others' archives, or received
// from the elected node. While such a verdict is in force, it replaces the verdicts of reports on this node
// alone. Event loop's thread only.
#pragma once

#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/nodes/joint_decision.h"
#include "launcher/options/run_options.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/reporting/report_runner.h"

#include <functional>
#include <optional>
#include <string>

namespace xpurun::launcher {

class JobVerdict {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    Journal& journal;
    const JobState& job;
    const RunOptions& options;
    JointDecision& decision;
  };
  struct Hooks {
    std::function<bool()> reporting;
    std::function<void()> request_report;
    std::function<void(const ReportResult&)> judged;  // records, reports and acts on the result
    std::function<void(const ActMessage&)> act;       // for the other nodes
  };

  JobVerdict(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  ~JobVerdict() { parts_.loop.cancel(forgetting_); }
  JobVerdict(const JobVerdict&) = delete;
  JobVerdict& operator=(const JobVerdict&) = delete;

  // Elected node: writes nodes.json and requests the report over all nodes.
  void merge(const GatheredMessage& message);
  // The result to use after a report; nullopt if the report was only a step.
  std::optional<ReportResult> take(ReportResult result);
  // The verdict of a report whose page is still being made.
  void take_verdict(const ReportResult& result);

  // The node that has made the verdict and the report.
  struct Judge {
    std::string host;       // empty: this node
    std::string directory;  // its run directory there
    std::string node;       // its name
    std::string request;    // the dump behind the verdict
    bool shared = false;    // the archives behind the verdict are on their way to this node
  };
  // `dump`: this node's own dump, empty if it is not done yet.
  void put_in_force(const model::Verdict& verdict, const std::string& dump, const Judge& by);
  // The archives of all nodes behind the verdict are here, so this node's page can show all ranks.
  void files_came(const JobFilesMessage& message);
  // The archives will not come.
  void no_files() { judge_.shared = false; }
  // The dump of this node is done, maybe after the verdict.
  void dump_done(const std::string& dump);
  // Acts on the verdict in force, if that was not possible before.
  void judge_again();
  // No verdict of the job will come: the reports of this node count again.
  void stay_alone(const std::string& why);
  void forget();
  // Does not forget at once: ranks that are being ended show progress too, and the verdict describes the time
  // before.
  void forget_soon();

  bool in_force() const { return verdict_.has_value(); }
  bool is_failure() const;
  bool is_hang() const { return verdict_ && verdict_->kind == model::VerdictKind::hang; }
  bool is_confirmed_hang() const { return is_hang() && verdict_->level == model::VerdictLevel::confirmed; }
  bool about_to_be_forgotten() const { return forgetting_ != 0; }

 private:
  void judge();
  void merged(const ReportResult& result);
  void note_judge(const Judge& by);
  void remove_nodes_file();
  // Points a reader who sees only this node's ranks to the report of all nodes.
  std::string place() const { return has_files_ || judge_.shared ? std::string() : place_; }
  // The verdict in force in the language of the run, if this node has made it.
  std::optional<model::Verdict> spoken() const;

  Parts parts_;
  Hooks hooks_;
  std::optional<model::Verdict> verdict_;
  std::string made_here_;  // the sentence of the verdict that this node has made for all nodes
  std::optional<model::Verdict> spoken_;
  Judge judge_;
  std::string place_;      // where the job's report is, if another node has it
  std::string no_report_;  // why the report over all nodes could not be written
  std::string why_alone_;  // why the verdict covers this node only
  bool has_nodes_file_ = false;
  bool has_files_ = false;  // archives of all nodes, received from the node that has judged
  bool merging_ = false;
  bool page_follows_ = false;          // the report with that verdict is still being made
  bool skip_report_ = false;           // the report under way began before nodes.json was written
  EventLoop::TimerId forgetting_ = 0;  // 0: the verdict is not about to be forgotten
};

}  // namespace xpurun::launcher
