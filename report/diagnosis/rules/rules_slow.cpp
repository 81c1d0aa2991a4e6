// Verdicts of jobs that ended well or were interrupted, and were slow.
#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/memory/page_faults.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/rules/placement.h"
#include "report/diagnosis/vocabulary.h"
#include "report/speed/ranks/slow_rule.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace xpurun::report {

using base::tr;
using model::SpeedFinding;
using model::Verdict;

namespace {

// Of the slow time, by what is wrong with the host.
constexpr double kLeastCovered = 0.3;
// Ranks that lack a CPU this much of the time that the slow ranks lack one are no better off.
constexpr double kAsOthers = 0.6;

// The pauses for checkpoints, if they take a large part of the time.
const model::StagePause* costly_checkpoint(const Scene& scene) {
  for (const model::StagePause& pause : scene.facts.pauses) {
    if (pause.stage == model::Stage::checkpoint && pause.share >= kSlowShare) {
      return &pause;
    }
  }
  return nullptr;
}

const std::string& words_of(const SpeedFinding& f) {
  return base::spoken() == base::Language::english || f.spoken.empty() ? f.sentence : f.spoken;
}

// "rank 2 made 150 steps 58 % longer, from step 299 (11:25:38 UTC) to step 449 (11:25:43 UTC), in augment
// (train.py:6): 1.80 s in all"
std::string spell_headline(const Scene& scene, const SpeedFinding& f, const std::string& where) {
  const auto at = [](int64_t step, int64_t wall_ns) {
    return wall_ns > 0 ? fmt::format("{} ({})", grouped(step), time_of_day(wall_ns)) : grouped(step);
  };
  return tr("{} made {} steps {} longer, from step {} to step {}{}: {} in all", scene.names(f.ranks),
            grouped(f.until - f.since), percent(f.share / (1 - f.share)), at(f.since, f.since_wall_ns),
            at(f.until, f.until_wall_ns), where, short_seconds(lost_in_all(f)));
}

std::string headline_of(const Scene& scene, const SpeedFinding& f, const Verdict& v) {
  const std::string where = v.where.function.empty() ? "" : tr(", in {}", place(v.where));
  if (f.until >= 0 && !f.ranks.empty() && f.share < 1) {
    return spell_headline(scene, f, where);
  }
  if (f.problem != model::SpeedProblem::slow_rank || f.period > 0) {
    return words_of(f);
  }
  if (f.lost_s <= 0) {
    return late_words(f.ranks, f.share) + where;
  }
  const std::string when = f.since_wall_ns > 0 ? fmt::format(" ({})", time_of_day(f.since_wall_ns)) : "";
  const std::string since =
      f.since < 0 ? tr(" from the first step on") : tr(" since step {}{}", grouped(f.since), when);
  return tr("{} {} {} of every step ({}){}{}", scene.names(f.ranks), pick({"costs", "cost"}, f.ranks.size()),
            percent(f.share), short_seconds(f.lost_s), since, where);
}

// Begin and end of the slow time.
std::pair<int64_t, int64_t> slow_time(const Scene& scene, const SpeedFinding& f) {
  const model::RunManifest& run = scene.facts.run;
  const int64_t run_end = run.started_wall_ns + std::llround(run.elapsed_s * 1e9);
  const int64_t end = f.until_wall_ns > 0 ? std::min(f.until_wall_ns, run_end) : run_end;
  return {std::min(f.since_wall_ns > 0 ? f.since_wall_ns : run.started_wall_ns, end - 1), end};
}

// The part of the slow time that the spell covers.
double covered(const Scene& scene, const SpeedFinding& f, const model::MachineSpell& spell) {
  const auto [begin, end] = slow_time(scene, f);
  const int64_t both = std::min(end, spell.end_wall_ns) - std::max(begin, spell.begin_wall_ns);
  return static_cast<double>(std::max<int64_t>(both, 0)) / static_cast<double>(end - begin);
}

// What was seen on the host of the slow ranks: the spell of a fact that weighs most.
struct HostFact {
  const model::MachineHistory* machine = nullptr;
  const model::MachineSeries* series = nullptr;
  double amount = 0;
  double weight = 0;  // the share of the slow time that the spell covers, times the amount

  void see(const Scene& scene, const SpeedFinding& f, const model::MachineHistory& of,
           const model::MachineSeries& s, const std::vector<model::MachineSpell>& spells) {
    for (const model::MachineSpell& spell : spells) {
      const double part = covered(scene, f, spell);
      if (part >= kLeastCovered && part * spell.amount > weight) {
        *this = {&of, &s, spell.amount, part * spell.amount};
      }
    }
  }
};

// "rank 1 waited for up to 1200 pages a second that were not in memory", where that is the cause. Who waits
// for a page wakes often, and then waits for a CPU as well.
std::string fault_words(const Scene& scene, const SpeedFinding& f) {
  const auto [begin, end] = slow_time(scene, f);
  for (const base::Rank rank :
       f.cause == model::SlowCause::memory ? f.ranks.ranks() : std::vector<base::Rank>()) {
    for (const model::MachineHistory& machine : scene.facts.machines) {
      if (const std::string words = page_fault_words(machine, rank, begin, end); !words.empty()) {
        return tr("rank {} {}", rank, words);
      }
    }
  }
  return {};
}

bool at_memory_limit(const Scene& scene, const SpeedFinding& f) {
  const auto [begin, end] = slow_time(scene, f);
  const std::vector<base::Rank> ranks = f.ranks.ranks();
  return f.cause == model::SlowCause::memory &&
         std::any_of(scene.facts.machines.begin(), scene.facts.machines.end(),
                     [&, b = begin, e = end](const auto& m) {
                       return std::any_of(ranks.begin(), ranks.end(), [&](base::Rank rank) {
                         return was_at_memory_limit(m, rank, b, e);
                       });
                     });
}

// "rank 1 wrote 433 MiB in small pieces, each of the others at most 380 KiB": what it prints or logs. Empty:
// it did not, or as much as the others.
std::string flood_words(const Scene& scene, const SpeedFinding& f) {
  constexpr double kLeastBytes = 50e6;
  constexpr double kLeastBytesPerS = 0.5e6;
  constexpr double kLargePiece = 16384;
  constexpr double kFarMore = 10;
  const auto grown = [](const model::MachineSeries& s) { return s.last - s.first; };
  for (const model::MachineHistory& machine : scene.facts.machines) {
    std::map<base::Rank, double> written;
    std::map<base::Rank, double> calls;
    for (const model::MachineSeries& s : machine.series) {
      if (s.fact == model::MachineFact::rank_written) {
        written[s.rank] += grown(s);
      } else if (s.fact == model::MachineFact::rank_io_calls) {
        calls[s.rank] += grown(s);
      }
    }
    double others = 0;
    for (const auto& [rank, bytes] : written) {
      others = f.ranks.contains(rank) ? others : std::max(others, bytes);
    }
    const double seconds =
        (static_cast<double>(machine.end_wall_ns) - static_cast<double>(machine.begin_wall_ns)) / 1e9;
    for (const auto& [rank, bytes] : written) {
      const bool much =
          bytes >= std::max(kLeastBytes, kLeastBytesPerS * seconds) && bytes >= kFarMore * others;
      if (f.ranks.contains(rank) && much && bytes < kLargePiece * calls[rank] && written.size() > 1) {
        const auto size = [](double n) { return base::human_size(static_cast<uint64_t>(std::min(n, 1e18))); };
        return tr("rank {} wrote {} in small pieces, each of the others at most {}", rank, size(bytes),
                  size(others));
      }
    }
  }
  return {};
}

// A mistake in where these ranks may run, or in their threads, that kept them from running. Nothing: there is
// none.
std::optional<Placement> placement_of(const Scene& scene, const model::RankSet& ranks) {
  for (const model::MachineHistory& machine : scene.facts.machines) {
    for (Placement& p : harmful_placements(machine)) {
      const std::vector<base::Rank> all = p.ranks.ranks();
      if (ranks.empty() ||
          std::any_of(all.begin(), all.end(), [&](base::Rank r) { return ranks.contains(r); })) {
        return std::move(p);
      }
    }
  }
  return std::nullopt;
}

// "; rank 4 was in calls to the file system for 63 % of the time (read() of /data/x, /data
// (nfs4 10.0.0.7:/ds))", or who had its CPUs; of the slow ranks, or of any rank where the whole job is slow.
// Where threads get no CPU, the other ranks may be what takes the CPUs. Who waits for a disk wakes often, and
// then waits for a CPU as well. A spell of the start explains no later steps.
std::string host_words(const Scene& scene, const SpeedFinding& f) {
  if (f.cause == model::SlowCause::gpu_shared) {
    return tr("; another program computes on the same GPU");
  }
  if (std::string words = fault_words(scene, f); !words.empty()) {
    return tr("; ") + words;
  }
  if (std::string words = flood_words(scene, f); !words.empty()) {
    return tr("; ") + words;
  }
  const bool no_cpu = f.cause == model::SlowCause::cpu_contention;
  HostFact storage;
  std::vector<HostFact> cpus;  // by rank
  for (const model::MachineHistory& machine : scene.facts.machines) {
    for (const model::MachineSeries& s : machine.series) {
      const bool slow = f.ranks.empty() || f.ranks.contains(s.rank);
      if (s.fact == model::MachineFact::storage_wait && slow) {
        storage.see(scene, f, machine, s, telling_spells(machine, s));
      } else if (s.fact == model::MachineFact::no_cpu) {
        cpus.emplace_back().see(scene, f, machine, s,
                                no_cpu || !slow ? lasting_spells(s) : telling_spells(machine, s));
      }
    }
  }
  HostFact cpu;
  for (const HostFact& one : cpus) {
    const bool slow = one.series != nullptr && (f.ranks.empty() || f.ranks.contains(one.series->rank));
    cpu = slow && one.weight > cpu.weight ? one : cpu;
  }
  if (storage.weight > (no_cpu ? cpu.weight : 0)) {
    return tr("; ") + machine_words(*storage.machine, *storage.series, storage.amount);
  }
  if (cpu.series == nullptr) {
    return "";
  }
  const bool all = std::any_of(cpus.begin(), cpus.end(), [&](const HostFact& one) {
    return one.weight >= kAsOthers * cpu.weight && one.series != cpu.series &&
           !f.ranks.contains(one.series->rank);
  });
  return tr("; ") + (all ? no_cpu_of_all_words(*cpu.machine, cpu.series->rank, cpu.amount)
                         : machine_words(*cpu.machine, *cpu.series, cpu.amount));
}

Verdict slow_verdict(const Scene& scene, const SpeedFinding& f, const Verdict& ended) {
  Verdict v = ended;
  v.id = f.until >= 0 ? kSlowSpell : f.ranks.empty() ? kSlowJob : kSlowRank;
  v.kind = model::VerdictKind::slow;
  v.level = model::VerdictLevel::suspected;
  v.confidence = f.confidence;
  v.ranks = f.ranks;
  v.where = f.where.empty() ? model::location_of(f.place) : f.where;
  const auto moment = [](int64_t step, int64_t wall_ns) {
    return step >= 0 && wall_ns > 0 ? base::utc_iso8601(wall_ns) : std::string();
  };
  v.slow = {.cause = f.cause,
            .share = f.share,
            .lost_s = f.lost_s,
            .step = f.since,
            .since = moment(f.since, f.since_wall_ns),
            .until_step = std::max<int64_t>(f.until, 0),
            .until = moment(f.until, f.until_wall_ns)};
  for (const RankView& rank : scene.ranks) {
    if (!f.ranks.empty() && rank.rank == f.ranks.lowest()) {
      v.host = rank.host;
      v.pid = rank.pid;
    }
  }
  if (f.period > 0 && !f.ranks.empty()) {
    v.title = tr("{} {} slow in every {}th step", scene.names(f.ranks), pick({"is", "are"}, f.ranks.size()),
                 f.period);
  }
  const std::string headline = headline_of(scene, f, v);
  // The reason for a lack of CPUs, rather than who had them.
  const auto placement =
      f.cause == model::SlowCause::cpu_contention ? placement_of(scene, f.ranks) : std::nullopt;
  say(v, headline + (placement ? tr("; ") + placement->title : host_words(scene, f)));
  for (const SpeedFinding& other : scene.facts.slow) {
    if (words_of(other) != headline && (makes_slow(other) || made_slow(other, scene.facts.run.elapsed_s))) {
      v.evidence.push_back(words_of(other));
    }
  }
  if (!ended.headline.empty()) {
    v.evidence.push_back(ended.headline);
  }
  v.next.text = placement                   ? placement->next
                : at_memory_limit(scene, f) ? page_fault_advice()
                : !flood_words(scene, f).empty()
                    ? tr("print or log less in these ranks (a higher level, fewer lines a step)")
                    : next_step(f, JobState::ended);
  return v;
}

// Slow from the first step to the last, with nothing to compare with.
Verdict placement_verdict(const Placement& placement, const Verdict& ended) {
  Verdict v = ended;
  const std::string words = tr("{}: threads that were ready had no CPU", placement.title);
  say(v, ended.headline.empty() ? words : tr("{}; {}", ended.headline, words));
  v.evidence.insert(v.evidence.end(), placement.evidence.begin(), placement.evidence.end());
  v.next.text = placement.next;
  return v;
}

Verdict checkpoint_verdict(const model::StagePause& pause, const Verdict& ended) {
  Verdict v = ended;
  v.id = kSlowPause;
  v.kind = model::VerdictKind::slow;
  v.level = model::VerdictLevel::suspected;
  v.where = model::location_of(pause.place);
  v.slow = {.cause = model::SlowCause::checkpoint, .share = pause.share};
  say(v, pause_sentence(pause));
  v.evidence.push_back(ended.headline);
  v.next.text = next_step({.cause = model::SlowCause::checkpoint, .ranks = pause.slow}, JobState::ended);
  return v;
}

// What all ranks lose alike is no fault of the job, but the next thing to improve.
std::optional<Verdict> with_costs(const Scene& scene, const Verdict& ended) {
  const std::vector<SpeedFinding>& all = scene.facts.slow;
  const auto cost = std::find_if(all.begin(), all.end(), [](const SpeedFinding& f) {
    return is_costly(f) && f.problem == model::SpeedProblem::cause;
  });
  if (cost == all.end()) {
    return std::nullopt;
  }
  Verdict v = ended;
  v.slow = {.cause = cost->cause, .share = cost->share, .lost_s = cost->lost_s};
  // The first half is about all ranks already.
  const bool of_stage = cost->cause == model::SlowCause::input || cost->cause == model::SlowCause::gc;
  say(v, tr("{}; {}", ended.headline,
            of_stage ? cause_sentence(*cost, RanksCompared::not_compared) : words_of(*cost)));
  v.next.text = next_step(*cost, JobState::ended);
  return v;
}

}  // namespace

std::optional<Verdict> was_slow(const Scene& scene) {
  const bool runs = scene.facts.steps_only && scene.facts.run.outcome == model::RunOutcome::running;
  const auto ended = runs || scene.facts.run.outcome == model::RunOutcome::interrupted
                         ? std::optional<Verdict>(Verdict())
                         : finished(scene);
  if (!ended) {
    return std::nullopt;
  }
  if (const SpeedFinding* worst = slowest(scene.facts.slow, scene.facts.run.elapsed_s)) {
    return slow_verdict(scene, *worst, *ended);
  }
  const bool interrupted = ended->id.empty();
  if (ended->id != kNoneFinished && !interrupted) {
    return std::nullopt;
  }
  if (const auto placement = runs ? std::nullopt : placement_of(scene, {})) {
    return placement_verdict(*placement, *ended);
  }
  if (interrupted) {
    return std::nullopt;
  }
  if (const model::StagePause* pause = costly_checkpoint(scene)) {
    return checkpoint_verdict(*pause, *ended);
  }
  return with_costs(scene, *ended);
}

}  // namespace xpurun::report
