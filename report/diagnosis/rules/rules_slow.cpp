// Verdicts of jobs that ended well or were interrupted, and were slow.
#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/vocabulary.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::SpeedFinding;
using model::Verdict;

namespace {

// A smaller part of a step is a finding, but no verdict on the job: a healthy pipeline on four H200 had 8 %.
constexpr double kLeastShare = 0.1;
// Where all ranks lose less of each step, other load of the machine explains that.
constexpr double kLeastLostS = 1e-3;

// A warning about a rank or about the whole job that lasts. What costs all steps alike, such as waiting for
// data, makes no job slower than it was.
bool counts(const SpeedFinding& f) {
  return f.severity == model::SpeedSeverity::warning && f.confidence >= model::Confidence::medium &&
         f.problem != model::SpeedProblem::cause && f.until < 0 && f.share >= kLeastShare &&
         (!f.ranks.empty() || f.lost_s >= kLeastLostS);
}

const std::string& words_of(const SpeedFinding& f) {
  return base::spoken() == base::Language::english || f.spoken.empty() ? f.sentence : f.spoken;
}

std::string headline_of(const Scene& scene, const SpeedFinding& f, const Verdict& v) {
  if (f.problem != model::SpeedProblem::slow_rank) {
    return words_of(f);
  }
  const std::string when = f.since_wall_ns > 0 ? fmt::format(" ({})", time_of_day(f.since_wall_ns)) : "";
  const std::string since =
      f.since < 0 ? tr(" from the first step on") : tr(" since step {}{}", grouped(f.since), when);
  const std::string where = v.where.function.empty() ? "" : tr(", in {}", place(v.where));
  return tr("{} {} every step {} ({}){}{}", scene.names(f.ranks), pick({"costs", "cost"}, f.ranks.size()),
            percent(f.share), short_seconds(f.lost_s), since, where);
}

// "; rank 4 was in calls to the file system for 63 % of the time (read() of /data/x, /data
// (nfs4 10.0.0.7:/ds))", of the slow ranks, or of any rank where the whole job is slow.
std::string storage_words(const Scene& scene, const SpeedFinding& f) {
  const model::MachineSeries* worst = nullptr;
  double most = 0;
  for (const model::MachineHistory& machine : scene.facts.machines) {
    for (const model::MachineSeries& s : machine.series) {
      if (s.fact != model::MachineFact::storage_wait || (!f.ranks.empty() && !f.ranks.contains(s.rank))) {
        continue;
      }
      for (const model::MachineSpell& spell : telling_spells(s)) {
        worst = spell.amount > most ? &s : worst;
        most = std::max(most, spell.amount);
      }
    }
  }
  return worst == nullptr ? std::string() : tr("; ") + machine_words(*worst, most);
}

}  // namespace

std::optional<Verdict> was_slow(const Scene& scene) {
  const std::vector<SpeedFinding>& all = scene.facts.slow;
  const auto worst = std::find_if(all.begin(), all.end(), counts);
  if (worst == all.end()) {
    return std::nullopt;
  }
  const auto ended = scene.facts.run.outcome == model::RunOutcome::interrupted
                         ? std::optional<Verdict>(Verdict())
                         : finished(scene);
  if (!ended) {
    return std::nullopt;
  }
  const SpeedFinding& f = *worst;
  Verdict v = *ended;
  v.id = f.ranks.empty() ? kSlowJob : kSlowRank;
  v.kind = model::VerdictKind::slow;
  v.level = model::VerdictLevel::suspected;
  v.confidence = f.confidence;
  v.ranks = f.ranks;
  v.where = f.where.empty() ? model::location_of(f.place) : f.where;
  v.slow = {.cause = f.cause,
            .share = f.share,
            .lost_s = f.lost_s,
            .step = f.since,
            .since = f.since >= 0 && f.since_wall_ns > 0 ? base::utc_iso8601(f.since_wall_ns) : ""};
  for (const RankView& rank : scene.ranks) {
    if (!f.ranks.empty() && rank.rank == f.ranks.lowest()) {
      v.host = rank.host;
      v.pid = rank.pid;
    }
  }
  const std::string normally = ended->headline;
  const std::string headline = headline_of(scene, f, v);
  say(v, headline + storage_words(scene, f));
  for (const SpeedFinding& other : all) {
    if (words_of(other) != headline && counts(other)) {
      v.evidence.push_back(words_of(other));
    }
  }
  if (!normally.empty()) {
    v.evidence.push_back(normally);
  }
  v.next.text = next_step(f);
  return v;
}

}  // namespace xpurun::report
