// A rule looks at the scene and returns a verdict, or nothing if it does not apply. The order of the rules in
// diagnose.cpp is the order of decision. Evidence is added afterwards, independently of the rule.
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

// The facts, plus derived values that every rule needs.
struct Scene {
  explicit Scene(const Facts& f);

  const Facts& facts;
  std::vector<RankView> ranks;
  std::vector<Ending> endings;
  std::optional<CallFinding> call_fault;  // found in the recorded calls
  std::optional<CallFinding> silent_mismatch;

  // The ranks in one of these states, ordered by rank, without ranks apart from the stall.
  Views in(std::initializer_list<RankState> states) const;
  Views all() const;
  // The ending of this rank's process; null if none.
  const Ending* ending_of(const RankView& v) const;
  // The first failure among the ranks whose latest process failed by itself.
  const Ending* root_failure() const;
  // Names the ranks, with their host if the job has several hosts and these ranks share one: "rank 5 (host
  // b)".
  std::string names(const model::RankSet& ranks) const;
  // Nodes whose data is missing wholly or partly, with the ranks of nodes that did not answer.
  std::vector<const model::RunNode*> gaps() const;
  // The ranks of nodes that did not answer.
  model::RankSet unheard() const;
  // When the ranks were last seen for the dump, in seconds since the start of the run; without a dump, the
  // run's age.
  double dump_at_s() const;
  // A rank outside the stall works, as far as is known.
  bool others_work() const;
  // The ranks whose GPU this is.
  model::RankSet ranks_on(const model::GpuDevice& gpu) const;

 private:
  void find_vain_waits();
  void set_apart();

  model::RankSet in_other_stalls_;  // open ones
};

// The stall has outlasted --busy-timeouts, so a busy rank is treated as stuck.
bool escalated(const Scene& scene);
// The stall has lasted for kStillTimeouts.
bool outlasted(const Scene& scene);

using Rule = std::optional<model::Verdict> (*)(const Scene&);

// rules_end.cpp
std::optional<model::Verdict> not_started(const Scene& scene);
std::optional<model::Verdict> interrupted(const Scene& scene);
std::optional<model::Verdict> finished(const Scene& scene);
// Finished, but a rank or the whole job was slow.
std::optional<model::Verdict> timed_out(const Scene& scene);
std::optional<model::Verdict> was_slow(const Scene& scene);
// The look at a job that runs: where it stands.
std::optional<model::Verdict> looked_at(const Scene& scene);
// The end of the watch of a job that xpurun had not started.
std::optional<model::Verdict> watch_ended(const Scene& scene);
std::optional<model::Verdict> still_running(const Scene& scene);

// rules_left.cpp
// The command has ended with status 0, and ranks go on.
std::optional<model::Verdict> left_running(const Scene& scene);
// Adds these ranks to any other verdict.
void name_left(const Scene& scene, model::Verdict& verdict);

// rules_hang.cpp: any verdict of kind hang, if the run hung
std::optional<model::Verdict> hung(const Scene& scene);

// rules_join.cpp: ranks that were never started, are used twice, or wait elsewhere
std::optional<model::Verdict> not_all_joined(const Scene& scene);

// rules_locks.cpp
// Ranks each of which waits for a lock that the next one holds, the last one for that of the first.
std::optional<model::Verdict> lock_circle(const Scene& scene);
// Ranks wait for a lock that another rank holds: the holder is the culprit.
std::optional<model::Verdict> locked(const Scene& scene);
// Ranks that look for files of each other, none of which exists.
std::optional<model::Verdict> looked_for_in_circle(const Scene& scene);
// Ranks that wait for locks of multiprocessing whose holders are not known.
model::Verdict shared_locks(const Scene& scene, const Views& living, model::VerdictLevel level);

// rules_store.cpp: ranks wait for a key of torch's store, and all that could set it wait, too
std::optional<model::Verdict> key_is_missing(const Scene& scene);

// gpu_errors.cpp: the kernel reported an error of a rank's GPU
std::optional<model::Verdict> gpu_failed(const Scene& scene);

// rules_calls.cpp
std::optional<model::Verdict> called_wrongly(const Scene& scene);
// The same, where ranks have died of the wrong or missing calls of others.
std::optional<model::Verdict> died_in_call(const Scene& scene);
std::optional<model::Verdict> failed_by_mismatch(const Scene& scene);
// A rank whose backend gave up waiting for another rank that had not come.
std::optional<model::Verdict> gave_up_first(const Scene& scene);
// The same where calls are not recorded: by the latest samples.
std::optional<model::Verdict> gave_up_unrecorded(const Scene& scene);
// Finished, but with wrong data: ranks had made different calls that ended.
std::optional<model::Verdict> computed_wrongly(const Scene& scene);
// Adds the call that the culprits of a stack-based verdict have not entered.
void add_calls(const Scene& scene, model::Verdict& verdict);

// rules_met.cpp
// A rank that gloo has ended because calls met that were not recorded: by the stacks.
std::optional<model::Verdict> met_other_call(const Scene& scene);
// Ranks that stand in a call which they have not made before, while as many others are in the backward pass
// of one more step. The calls of a backward pass are recorded for GPUs only.
std::optional<model::Verdict> left_the_steps(const Scene& scene);
// A rank that had ended with status 0 when the others began to wait for another process of this host.
std::optional<model::Verdict> left_before_waits(const Scene& scene);

// rules_crash.cpp
std::optional<model::Verdict> left_early(const Scene& scene);
std::optional<model::Verdict> launcher_ended(const Scene& scene);
std::optional<model::Verdict> rank_failed(const Scene& scene);
std::optional<model::Verdict> command_failed(const Scene& scene);

// The stall that the verdict rests on: one that xpurun ended, one that still lasts, or one that a failure
// ended (the job's own watchdog). Null if there is none. The stall may lack a dump.
const model::Stall* stall_that_matters(const model::RunManifest& run);

// Adds evidence lines, most important first.
void add_evidence(const Scene& scene, model::Verdict& verdict);

}  // namespace xpurun::report
