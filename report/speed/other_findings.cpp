#include "report/speed/other_findings.h"

#include "report/speed/job_table.h"
#include "report/speed/levels.h"
#include "report/speed/patterns.h"
#include "report/speed/ranks/causes.h"
#include "report/speed/ranks/slow_rule.h"
#include "report/speed/spells.h"

#include <algorithm>
#include <utility>

namespace xpurun::report {

namespace {

using model::Confidence;
using model::SlowCause;
using model::SpeedProblem;

constexpr double kByPattern = 0.5;  // of what the ranks cost
constexpr double kMostOfWaste = 0.8;
constexpr size_t kMostSpells = 5;

// The rank that loses most of the time. No wait is part of these stages, however much the other times vary.
bool add_rank_of(const JudgedJob& j, const model::CauseShare& cause, model::Stage stage) {
  const auto of_stage = j.job.synchronous() && j.stages.empty()
                            ? find_blame(OwnTimes::of_stage(j.job, stage), j.hosts, j.window)
                            : std::nullopt;
  const double all_s = cause.share * j.mean_step_s;
  if (!of_stage || of_stage->ranks.size() > 1 || of_stage->lost_s < kMostOfWaste * all_s) {
    return false;
  }
  const RankSteps& rank = j.job.rank(of_stage->ranks.front());
  model::SpeedFinding f{.problem = SpeedProblem::slow_rank,
                        .cause = cause.cause,
                        .confidence = j.certainty(),
                        .ranks = j.set_of(of_stage->ranks),
                        .place = rank.places[static_cast<size_t>(stage)]};
  j.put_loss(f, all_s);
  j.put_sentence(f, [&] {
    return slow_rank_sentence(f, {.cause = {.kind = cause.cause, .stage = stage},
                                  .host = rank.host,
                                  .others_wait_in = j.waiting_place(*of_stage)});
  });
  f.next = next_step(f);
  j.add(std::move(f));
  return true;
}

// The steps before a spell that it is compared with.
StepWindow before_of(const JudgedJob& j, StepWindow spell) {
  const size_t as_many = std::max(spell.size(), j.least_after());
  const size_t warm = std::min(kWarmUpSteps, spell.first);
  return {std::max(warm, spell.first - std::min(spell.first, as_many)), spell.first};
}

// The ranks that were slow in the spell. Without a GPU, they have to be seen to do something else meanwhile:
// another load of the machine may slow one rank more than the others.
std::optional<Blame> blame_for(const JudgedJob& j, const StepSpell& spell) {
  if (!spell.ranks.empty()) {
    return Blame{.ranks = spell.ranks, .lost_s = spell.lost_s};
  }
  auto blame =
      j.job.synchronous() && !j.inferred ? find_blame(j.compared(), j.hosts, spell.steps) : std::nullopt;
  if (!blame || (on_cpus(j.job) && !j.is_seen(*blame, spell.steps))) {
    return {};
  }
  return explains_change(find_blame(j.compared(), j.hosts, before_of(j, spell.steps)), *blame) ? blame
                                                                                               : std::nullopt;
}

model::SpeedFinding finding_of(const JudgedJob& j, const StepSpell& spell) {
  const auto begin = static_cast<int64_t>(spell.steps.first);
  const auto end = static_cast<int64_t>(spell.steps.last);
  model::SpeedFinding f{
      .problem = SpeedProblem::slower,
      .confidence = lower(spell.ranks.empty() ? Confidence::high : j.certainty(), j.out.confidence),
      .since = begin,
      .since_wall_ns = j.begin_of(begin),
      .until = end,
      .until_wall_ns = j.begin_of(end),
      .lost_s = spell.during_s - spell.before_s,
      .share = 1 - spell.before_s / spell.during_s};
  const std::vector<RankMeans> during = rank_means(j.job, j.own, spell.steps);
  const MeansOfWindow now{spell.steps, during};
  Cause cause;
  if (const auto blame = blame_for(j, spell)) {
    cause = cause_of(j.job, now, *blame, nullptr);
    f.ranks = j.set_of(blame->ranks);
    f.place = j.job.rank(blame->ranks.front()).places[static_cast<size_t>(cause.stage)];
  } else {
    const StepWindow earlier = before_of(j, spell.steps);
    const std::vector<RankMeans> before = rank_means(j.job, j.own, earlier);
    cause = cause_of_change(j.job, {earlier, before}, now);
    f.place = j.job.rank(0).places[static_cast<size_t>(cause.stage)];
    // Without a GPU, any other load of the machine makes a spell.
    const bool own = cause.kind == SlowCause::unknown ? between_stages(before, during)
                                                      : cause.kind != SlowCause::cpu_contention;
    f.severity = on_cpus(j.job) && !own ? model::SpeedSeverity::note : f.severity;
  }
  f.cause = cause.kind;
  j.put_sentence(f, [&] {
    return spell_sentence(f, {spell.before_s, spell.during_s, cause, j.ranks_compared});
  });
  f.next = next_step(f);
  return f;
}

}  // namespace

void add_spells(const JudgedJob& j) {
  std::vector<StepSpell> spells = spells_between(j.out.changes, j.seconds);
  const bool accused = std::any_of(j.out.findings.begin(), j.out.findings.end(),
                                   [](const auto& f) { return !f.ranks.empty(); });
  if (spells.empty() && !accused && j.job.synchronous() && !j.inferred && j.stages.empty()) {
    const StepWindow all{std::min(kWarmUpSteps, j.job.steps()), j.job.steps()};
    const auto one = spell_of_rank(j.own, j.hosts, j.seconds, all, j.least_after());
    if (one && on_cpus(j.job) && j.is_seen({.ranks = one->ranks, .lost_s = one->lost_s}, one->steps)) {
      spells.push_back(*one);
    }
  }
  spells.resize(std::min(spells.size(), kMostSpells));
  for (const StepSpell& spell : spells) {
    j.add(finding_of(j, spell));
  }
}

namespace {

SlowCause cause_of(const model::StagePause& pause) {
  return pause.stage == model::Stage::checkpoint ? SlowCause::checkpoint : SlowCause::evaluation;
}

// The pauses that make these steps of these ranks slow; null if none.
const model::StagePause* pause_in(const JudgedJob& j, const model::SpeedFinding& finding) {
  const auto& all = j.out.stage_pauses;
  const auto it = std::find_if(all.begin(), all.end(), [&](const model::StagePause& p) {
    return p.every == finding.period && p.ranks == finding.ranks;
  });
  return it == all.end() ? nullptr : &*it;
}

}  // namespace

bool add_pattern(const JudgedJob& j, const std::optional<Blame>& of_all, int64_t since) {
  const auto pattern = pattern_of(j.seconds, j.window, on_cpus(j.job) ? kLeastSlowOnCpus : kLeastSlow);
  const auto blame = pattern && j.job.synchronous()
                         ? blame_for(*pattern, j.job, j.inferred ? nullptr : &j.compared(), j.hosts)
                         : std::nullopt;
  const bool alone = pattern && j.job.ranks() == 1 && j.out.stage_pauses.empty();
  const bool same = blame && of_all && blame->ranks == of_all->ranks &&
                    pattern->lost_s >= (on_cpus(j.job) ? kByPattern : kMostOfWaste) * of_all->lost_s;
  if (of_all ? !same : !blame && !alone) {
    return false;
  }
  model::SpeedFinding f{.problem = blame ? SpeedProblem::slow_rank : SpeedProblem::cause,
                        .severity = blame ? model::SpeedSeverity::warning : model::SpeedSeverity::note,
                        .confidence = j.certainty(),
                        .since = pattern->since < 0 ? since : pattern->since,
                        .period = static_cast<int64_t>(pattern->period)};
  f.ranks = blame ? j.set_of(blame->ranks) : model::RankSet();
  if (const model::StagePause* pause = pause_in(j, f)) {
    f.cause = cause_of(*pause);
    f.place = pause->place;
  }
  j.put_loss(f, pattern->lost_s);
  j.put_sentence(f, [&] { return pattern_sentence(f, *pattern); });
  f.next = next_step(f);
  j.add(std::move(f));
  return same;
}

namespace {

// The losses that go on: of the begin only, such as those of a cache that fills, nothing is left in the later
// half of the steps.
std::vector<model::CauseShare> lasting_losses(const JudgedJob& j) {
  const StepWindow later{j.window.first + j.window.size() / 2, j.window.last};
  const auto of_later = what_if(j.job, j.own, later, 0);
  std::vector<model::CauseShare> out = j.out.what_if;
  for (model::CauseShare& one : out) {
    const auto it = std::find_if(of_later.begin(), of_later.end(),
                                 [&](const model::CauseShare& l) { return l.cause == one.cause; });
    one.share = it == of_later.end() ? 0 : std::min(one.share, it->share);
  }
  return out;
}

}  // namespace

void add_causes(const JudgedJob& j) {
  for (const model::CauseShare& one : lasting_losses(j)) {
    const bool input = one.cause == SlowCause::input;
    if ((!input && one.cause != SlowCause::gc) || one.share < (input ? kLeastInput : kLeastWaste)) {
      continue;
    }
    const auto stage = static_cast<size_t>(input ? model::Stage::data : model::Stage::garbage);
    const bool gpu = !on_cpus(j.job);
    if (!gpu && add_rank_of(j, one, static_cast<model::Stage>(stage))) {
      continue;
    }
    model::SpeedFinding f{.problem = SpeedProblem::cause,
                          // A GPU may have had work to do meanwhile.
                          .severity = gpu ? model::SpeedSeverity::note : model::SpeedSeverity::warning,
                          .cause = one.cause,
                          .confidence = gpu ? Confidence::low : lower(Confidence::high, j.out.confidence),
                          .place = j.job.rank(0).places[stage],
                          .lost_s = one.share * j.out.step_s,
                          .share = one.share};
    j.put_sentence(f, [&] { return cause_sentence(f, j.ranks_compared); });
    f.next = next_step(f);
    j.add(std::move(f));
  }
}

void add_lost_cpu(const JudgedJob& j) {
  const auto cause = taken_from_all(j.means, kLeastWaste);
  const auto& known = j.out.findings;
  if (!cause || std::any_of(known.begin(), known.end(),
                            [](const auto& f) { return f.cause == SlowCause::cpu_contention; })) {
    return;
  }
  const bool gpu = !on_cpus(j.job);
  model::SpeedFinding f{.problem = SpeedProblem::cause,
                        // A GPU may have had work to do meanwhile.
                        .severity = gpu ? model::SpeedSeverity::note : model::SpeedSeverity::warning,
                        .cause = SlowCause::cpu_contention,
                        .confidence = gpu ? Confidence::low : lower(Confidence::medium, j.out.confidence)};
  j.put_loss(f, cause->excess_s);
  j.put_sentence(f, [&] { return lost_cpu_sentence(f, *cause); });
  f.next = next_step(f);
  j.put_what_if(f);
  j.add(std::move(f));
}

void add_pauses(const JudgedJob& j) {
  for (model::StagePause& pause : j.out.stage_pauses) {
    pause.sentence = pause_sentence(pause);
    const double cost = pause.slow_s > 0 ? pause.share * (1 - pause.others_s / pause.slow_s) : 0;
    if (pause.slow.empty() || cost < kLeastPause) {
      continue;
    }
    model::SpeedFinding f{.problem = SpeedProblem::cause,
                          .severity = model::SpeedSeverity::note,
                          .cause = cause_of(pause),
                          .confidence = lower(Confidence::high, j.out.confidence),
                          .ranks = pause.slow,
                          .place = pause.place,
                          .lost_s = cost * j.out.step_s,
                          .share = cost};
    j.put_sentence(f, [&] { return slow_pause_sentence(pause); });
    f.next = next_step(f);
    j.add(std::move(f));
  }
}

}  // namespace xpurun::report
