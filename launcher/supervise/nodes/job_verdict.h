// JobVerdict: the verdict of all nodes, on this node: made here from what the others have sent, or come from
// the elected node. While one is in force it stands in the place of what reports on this node alone say.
// Event loop's thread only.
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
    std::function<void(const ReportResult&)> judged;  // to be recorded, reported and acted on
    std::function<void(const ActMessage&)> act;       // for the other nodes
  };

  JobVerdict(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  ~JobVerdict() { parts_.loop.cancel(forgetting_); }
  JobVerdict(const JobVerdict&) = delete;
  JobVerdict& operator=(const JobVerdict&) = delete;

  // Elected node: writes nodes.json and has the report over all nodes made.
  void merge(const GatheredMessage& message);
  // What becomes of a report. Nothing: it has served its purpose.
  std::optional<ReportResult> take(ReportResult result);
  // The verdict of a report that is still being made.
  void take_verdict(const ReportResult& result);

  // The node that has made the verdict and the report.
  struct Judge {
    std::string host;       // empty: this node
    std::string directory;  // its run directory there
    std::string node;       // its name
    std::string request;    // the dump that the verdict rests on
    bool shared = false;    // what the verdict rests on is on its way to this node
  };
  // `dump`: this node's own, empty if it is not done yet.
  void put_in_force(const model::Verdict& verdict, const std::string& dump, const Judge& by);
  // What all nodes have sent for the verdict is here: this node's page shows all of them.
  void files_came(const JobFilesMessage& message);
  // They will not come.
  void no_files() { judge_.shared = false; }
  // The dump of this node is done, maybe after the verdict.
  void dump_done(const std::string& dump);
  // Acts on the verdict in force, if it could not be acted on before.
  void judge_again();
  // No verdict of the job comes: reports are again this node's own.
  void stay_alone(const std::string& why);
  void forget();
  // Ranks that are being ended are no longer still either, and the verdict is on what was before.
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
  // For a reader who finds only this node's ranks in its report.
  std::string place() const { return has_files_ || judge_.shared ? std::string() : place_; }
  // Of the verdict in force, in the language of the run, if this node has made it.
  std::optional<model::Verdict> spoken() const;

  Parts parts_;
  Hooks hooks_;
  std::optional<model::Verdict> verdict_;
  std::string made_here_;  // the sentence of the verdict that this node has made for all
  std::optional<model::Verdict> spoken_;
  Judge judge_;
  std::string place_;      // of the job's report, if another node has it
  std::string no_report_;  // why the report over all nodes could not be written
  std::string why_alone_;  // the verdict that comes is this node's only
  bool has_nodes_file_ = false;
  bool has_files_ = false;  // of all nodes, from another node that has judged
  bool merging_ = false;
  bool page_follows_ = false;          // the report with that verdict is still being made
  bool skip_report_ = false;           // the report under way began before nodes.json was there
  EventLoop::TimerId forgetting_ = 0;  // 0: not about to
};

}  // namespace xpurun::launcher
