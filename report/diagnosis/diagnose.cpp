#include "report/diagnosis/diagnose.h"

#include "common/base/strings.h"
#include "report/diagnosis/rule.h"

#include <algorithm>

namespace xpurun::report {

using model::RunManifest;
using model::Verdict;

namespace {

constexpr Rule kRules[] = {
    not_started,     // nothing ran
    interrupted,     // the user ended it, perhaps because it hung
    finished,        // all is well
    hung,            // ended by us, still lasting, or the reason of the failures after it
    left_early,      // before the failures that it caused
    launcher_ended,  // before any rank
    rank_failed,     //
    command_failed,  // no rank known
    still_running,   //
};

constexpr size_t kMostLines = 10;
constexpr size_t kColumns = 110;

}  // namespace

Verdict diagnose(const Facts& facts) {
  const Scene scene(facts);
  Verdict verdict;
  for (const Rule rule : kRules) {
    if (auto v = rule(scene)) {
      verdict = std::move(*v);
      break;
    }
  }
  add_evidence(scene, verdict);
  return verdict;
}

std::string dump_that_matters(const RunManifest& run) {
  if (const model::Incident* incident = incident_that_matters(run)) {
    return incident->dump;
  }
  if (run.outcome == model::RunOutcome::exit && run.child_status.succeeded()) {
    return {};
  }
  Facts facts;
  facts.run = run;
  const Scene scene(facts);
  const Ending* root = scene.root_failure();
  if (root != nullptr && root->notice != nullptr && !root->notice->dump.empty()) {
    return root->notice->dump;
  }
  // The stacks of the others at a death show who waited for whom.
  const auto told = std::find_if(run.dumps.begin(), run.dumps.end(), [&](const model::DumpRecord& d) {
    return root != nullptr && (d.why == model::DumpReason::death || d.why == model::DumpReason::crash) && d.at_s + 1 >= root->at_s;
  });
  if (told != run.dumps.end()) {
    return told->dir;
  }
  const bool fresh = run.outcome == model::RunOutcome::running && run.incidents.empty() && !run.dumps.empty();
  return fresh && run.dumps.back().why == model::DumpReason::hang ? run.dumps.back().dir : std::string();
}

std::vector<std::string> verdict_lines(const Verdict& verdict, const RunManifest&) {
  std::vector<std::string> lines{base::sanitize(verdict.sentence)};
  const size_t reserved = verdict.next.empty() ? 0 : 1;
  for (const std::string& line : verdict.evidence) {
    if (lines.size() + reserved > kMostLines) {
      break;
    }
    lines.push_back("  " + base::elide_middle(base::sanitize(line), kColumns - 2));
  }
  if (reserved != 0) {
    lines.push_back("  " + base::elide_middle(base::sanitize("next: " + verdict.next), kColumns - 2));
  }
  return lines;
}

}  // namespace xpurun::report
