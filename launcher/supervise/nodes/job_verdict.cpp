#include "launcher/supervise/nodes/job_verdict.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/documents/document_text.h"
#include "common/model/job/nodes.h"
#include "common/model/run_dir.h"
#include "launcher/nodes/node_state.h"
#include "launcher/options/exit_status.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

namespace {

// Longest time between the first rank that ends and the end of the command.
constexpr double kEndOfRanksS = 10;

}  // namespace

bool JobVerdict::is_failure() const {
  return verdict_ &&
         (verdict_->kind == model::VerdictKind::crash || verdict_->kind == model::VerdictKind::exception ||
          verdict_->kind == model::VerdictKind::exit);
}

void JobVerdict::merge(const GatheredMessage& message) {
  std::string elected;
  for (const NodeInfo& n : parts_.decision.nodes()) {
    elected = n.elected ? n.node : elected;
  }
  model::Nodes nodes = nodes_file(message, parts_.decision.node(), elected);
  std::map<std::string_view, double> seen_s;
  for (const NodeInfo& n : parts_.decision.nodes()) {
    seen_s.emplace(n.node, n.seen_s);
  }
  for (model::NodeEntry& entry : nodes.nodes) {
    const bool missing =
        entry.status == model::NodeStatus::silent || entry.status == model::NodeStatus::cut_off;
    if (const auto found = seen_s.find(entry.node); missing && found != seen_s.end()) {
      entry.silent_s = found->second;
    }
  }
  parts_.storage.replace(parts_.journal.dir().file(model::kNodesFile), model::document_text(nodes, 1) + "\n");
  has_nodes_file_ = true;
  merging_ = true;
  // A report that is under way began before nodes.json existed. Its result is skipped.
  skip_report_ = hooks_.reporting();
  hooks_.request_report();
}

std::optional<ReportResult> JobVerdict::take(ReportResult result) {
  if (merging_) {
    if (std::exchange(skip_report_, false)) {
      return std::nullopt;
    }
    merging_ = false;
    if (parts_.decision.is_open()) {
      merged(result);
      return std::nullopt;
    }
  }
  if (std::exchange(page_follows_, false)) {
    no_report_ = result.problem;
  }
  if (parts_.decision.is_open()) {
    return std::nullopt;
  }
  if (verdict_) {
    result.verdict = verdict_;
    result.spoken = spoken();
    result.place = place();
    return result;
  }
  const std::string why = !parts_.decision.is_joined() ? parts_.decision.why_alone() : why_alone_;
  if (!why.empty() && result.verdict && result.verdict->kind != model::VerdictKind::none &&
      result.verdict->kind != model::VerdictKind::running) {
    result.verdict->evidence.push_back(fmt::format("this node only: {}", why));
    if (result.spoken) {
      result.spoken->evidence.push_back(result.verdict->evidence.back());
    }
  }
  return result;
}

void JobVerdict::take_verdict(const ReportResult& result) {
  if (merging_ && !skip_report_ && parts_.decision.is_open()) {
    merging_ = false;
    page_follows_ = true;
    merged(result);
  }
}

void JobVerdict::merged(const ReportResult& result) {
  no_report_ = result.problem;
  made_here_ = result.verdict ? result.verdict->sentence : std::string();
  spoken_ = result.spoken;
  parts_.decision.merged(result.verdict);
}

void JobVerdict::put_in_force(const model::Verdict& verdict, const std::string& dump, const Judge& by) {
  verdict_ = verdict;
  if (is_failure()) {
    parts_.loop.cancel(std::exchange(forgetting_, 0));  // the timer belonged to the hang before
  }
  why_alone_.clear();
  // Each node's stall refers to the dump of the same node.
  verdict_->dump = dump;
  if (!by.host.empty()) {
    remove_nodes_file();  // written for an earlier verdict
  }
  note_judge(by);
  no_report_ = place_.empty() ? no_report_ : "";
  judge();
}

// A later report on this run directory must know where the report of all nodes is.
void JobVerdict::note_judge(const Judge& by) {
  judge_ = by;
  parts_.journal.manifest().job_report_host = by.host;
  parts_.journal.manifest().job_report_dir = by.directory;
  if (by.host.empty()) {
    place_.clear();
    return;
  }
  const std::string page =
      by.directory.empty() ? "" : ": " + base::sanitize(model::RunDir(by.directory).report_html());
  place_ = fmt::format("the report of all nodes is on {}{}", base::sanitize(by.host), page);
}

void JobVerdict::dump_done(const std::string& dump) {
  if (verdict_ && verdict_->dump.empty()) {
    verdict_->dump = dump;
    judge_again();
  }
}

// The end of the job has waited for evidence or a dump.
void JobVerdict::judge_again() {
  if (verdict_ && !parts_.decision.is_open() && !parts_.job.is_ending()) {
    judge();
  }
}

// If this node made the verdict and the verdict ends the job here, the job ends on all nodes.
void JobVerdict::judge() {
  const bool ending = parts_.job.is_ending();
  hooks_.judged({.verdict = verdict_,
                 .spoken = spoken(),
                 .problem = no_report_,
                 .place = place(),
                 .unfinished = page_follows_});
  if (!ending && parts_.job.is_ending() && place_.empty()) {
    hooks_.act({.action = JobAction::kill, .exit_status = kExitHangEnded, .reason = verdict_->sentence});
  }
}

std::optional<model::Verdict> JobVerdict::spoken() const {
  return verdict_ && verdict_->sentence == made_here_ ? spoken_ : std::nullopt;
}

void JobVerdict::stay_alone(const std::string& why) {
  why_alone_ = why;
  merging_ = false;
  forget();
}

// The archives of the other nodes show a state that has passed.
void JobVerdict::forget() {
  parts_.loop.cancel(std::exchange(forgetting_, 0));
  verdict_.reset();
  if (!parts_.journal.manifest().job_report_host.empty()) {
    note_judge({});
    parts_.journal.save_now();
  }
  remove_nodes_file();
}

void JobVerdict::remove_nodes_file() {
  has_files_ = false;
  if (std::exchange(has_nodes_file_, false)) {
    parts_.storage.remove(parts_.journal.dir().file(model::kNodesFile));
  }
}

void JobVerdict::files_came(const JobFilesMessage& message) {
  if (!message.reason.empty()) {
    base::log_info("what all nodes have sent: {}", message.reason);
  }
  if (!verdict_ || place_.empty() || judge_.request != message.request) {
    return;
  }
  no_files();
  if (message.nodes.empty()) {
    return;
  }
  const model::Nodes nodes =
      nodes_file({.request = message.request, .nodes = message.nodes}, parts_.decision.node(), judge_.node);
  parts_.storage.replace(parts_.journal.dir().file(model::kNodesFile), model::document_text(nodes, 1) + "\n");
  has_nodes_file_ = true;
  has_files_ = true;
  if (parts_.options.report) {
    hooks_.request_report();
  }
}

void JobVerdict::forget_soon() {
  if (is_failure()) {
    return;  // ranks that waited for the failed rank make progress again, or are being ended
  }
  parts_.loop.cancel(forgetting_);
  forgetting_ = parts_.loop.after(kEndOfRanksS, [this] {
    if (!parts_.job.is_ending()) {
      const bool passed = verdict_.has_value();
      forget();
      if (passed && parts_.options.report) {
        hooks_.request_report();  // the last report still shows the verdict that has passed
      }
    }
  });
}

}  // namespace xpurun::launcher
