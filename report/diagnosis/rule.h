// A rule looks at the scene and answers with a verdict, or with nothing if it does not apply. The array of
// rules in diagnose.cpp is the order of decision; evidence is added afterwards and does not depend on the
// rule.
#pragma once

#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/ends/endings.h"
#include "report/diagnosis/rank_view.h"
#include "report/diagnosis/wording.h"

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

namespace xpurun::report {

// The facts with what every rule needs worked out once.
struct Scene {
  explicit Scene(const Facts& f);

  const Facts& facts;
  std::vector<RankView> ranks;
  std::vector<Ending> endings;
  std::optional<CallFinding> call_fault;  // what the recorded calls say

  Views in(std::initializer_list<RankState> states) const;
  Views all() const;
  // The ending of this rank's process, null if it has none.
  const Ending* ending_of(const RankView& v) const;
  // Of ranks whose latest process failed by itself: the first one.
  const Ending* root_failure() const;
  // The ranks, with their host if the job has several and these ranks are on one: "rank 5 (host b)".
  std::string names(const model::RankSet& ranks) const;
  // Nodes whose data is missing in whole or in part, and ranks of those that did not answer.
  std::vector<const model::RunNode*> gaps() const;
  model::RankSet unheard() const;
};

// The stall outlasted --busy-timeouts: a busy rank is treated as stuck.
bool escalated(const Scene& scene);

using Rule = std::optional<model::Verdict> (*)(const Scene&);

// rules_end.cpp
std::optional<model::Verdict> not_started(const Scene& scene);
std::optional<model::Verdict> interrupted(const Scene& scene);
std::optional<model::Verdict> finished(const Scene& scene);
std::optional<model::Verdict> still_running(const Scene& scene);

// rules_hang.cpp: any verdict of kind hang, if the run's story is a hang
std::optional<model::Verdict> hung(const Scene& scene);

// rules_calls.cpp
std::optional<model::Verdict> called_wrongly(const Scene& scene);
std::optional<model::Verdict> failed_by_mismatch(const Scene& scene);
// Adds the call that the culprits of a verdict by stacks are missing in.
void add_calls(const Scene& scene, model::Verdict& verdict);

// rules_crash.cpp
std::optional<model::Verdict> left_early(const Scene& scene);
std::optional<model::Verdict> launcher_ended(const Scene& scene);
std::optional<model::Verdict> rank_failed(const Scene& scene);
std::optional<model::Verdict> command_failed(const Scene& scene);

// Whether the verdict rests on a stall: one that we ended, one that lasts, or one that the failure ended (the
// job's own watchdog). Null if not; the incident may lack a dump.
const model::Incident* incident_that_matters(const model::RunManifest& run);

// Adds evidence lines, most important first.
void add_evidence(const Scene& scene, model::Verdict& verdict);

}  // namespace xpurun::report
