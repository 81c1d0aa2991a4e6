// Verdicts on ranks that wait in init_process_group for others that will not come.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/vocabulary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::Joining;
using model::RankSet;
using model::Verdict;

namespace {

// The processes in init_process_group, by the rank that they have passed.
struct Joiners {
  std::map<base::Rank, std::vector<base::Pid>> pids;
  std::map<std::string, RankSet> places;  // the ranks that meet there
  int size = 0;                           // number of ranks that the largest call expects
  bool local = true;                      // all ranks are on this host
  bool some_ended = false;

  RankSet missing() const {
    RankSet out;
    for (base::Rank rank = 0; rank < size; ++rank) {
      if (!pids.contains(rank)) {
        out.insert(rank);
      }
    }
    return out;
  }
};

// Two addresses may be those of one host, so that only their ports can be compared.
std::string place_of(const Joining& j) {
  const size_t colon = j.place.rfind(':');
  return j.place.starts_with('/') || colon == std::string::npos ? j.place : j.place.substr(colon);
}

bool is_loopback(const std::string& place) {
  return place.starts_with("127.") || place.starts_with("localhost:") || place.starts_with("[::1]");
}

// The process had ended at the dump.
bool had_ended(const Scene& scene, base::Pid pid) {
  return std::any_of(scene.endings.begin(), scene.endings.end(), [&](const Ending& e) {
    return e.dead && e.process->pid == pid && scene.facts.dump && e.at_s <= scene.facts.dump->at_s;
  });
}

// With NCCL, only rank 0 and those that have not reached its store wait in init_process_group. The others
// wait in their first call of all ranks, which torch's record does not have if DDP makes it in C++.
bool is_in_first_call(const model::RankCollectives& r, int size) {
  const auto is_first = [size](const model::Communicator& c) {
    return c.size == size && c.called <= 1 && c.launched == 0;
  };
  return r.joining.empty() && !r.communicators.empty() &&
         std::all_of(r.communicators.begin(), r.communicators.end(), is_first);
}

// Processes that were started as a rank that another process is, too.
void add_twins(const Scene& scene, Joiners& out) {
  for (const model::ProcessRecord& p : scene.facts.run.processes) {
    const auto known = out.pids.find(p.rank);
    if (p.role == model::ProcessRole::other && p.rank >= 0 && p.python && !had_ended(scene, p.pid) &&
        known != out.pids.end() &&
        std::find(known->second.begin(), known->second.end(), p.pid) == known->second.end()) {
      known->second.push_back(p.pid);
    }
  }
}

// Empty unless all ranks that are known wait there, or in their first call.
std::optional<Joiners> joiners(const Scene& scene) {
  Joiners out;
  RankSet inside;
  for (const model::RankCollectives& r : scene.facts.collectives.ranks) {
    if (r.joining.empty()) {
      continue;
    }
    const bool ended = had_ended(scene, r.pid);
    inside.insert(r.rank);
    out.pids[r.joining.rank].push_back(r.pid);
    out.size = std::max(out.size, r.joining.size);
    out.some_ended |= ended;
    if (!ended) {
      out.places[place_of(r.joining)].insert(r.joining.rank);
      out.local &= is_loopback(r.joining.place);
    }
  }
  for (const model::RankCollectives& r : scene.facts.collectives.ranks) {
    if (out.size > 0 && is_in_first_call(r, out.size)) {
      inside.insert(r.rank);
      out.pids[r.rank].push_back(r.pid);
    }
  }
  add_twins(scene, out);
  const bool all = std::all_of(scene.ranks.begin(), scene.ranks.end(), [&](const RankView& v) {
    return inside.contains(v.rank) && (v.state == RankState::waiting || v.state == RankState::dead);
  });
  return all && !inside.empty() && !out.pids.contains(base::kNoRank) ? std::optional(std::move(out))
                                                                     : std::nullopt;
}

Verdict verdict_on(const Scene& scene, const RankSet& culprits, Confidence confidence) {
  const Views waiting = scene.in({RankState::waiting});
  Verdict v = begin_hang(scene, {.id = kHangNotJoined, .confidence = confidence}, {}, waiting);
  v.ranks = culprits;
  v.seconds = longest(waiting);
  return v;
}

std::string where_they_wait(const Verdict& v) {
  return v.waiting.empty() ? "init_process_group"
                           : waiting_place(v.waiting.front().what, v.waiting.front().where);
}

std::optional<Verdict> used_twice(const Scene& scene, const Joiners& all) {
  const auto twice = std::find_if(all.pids.begin(), all.pids.end(),
                                  [](const auto& of_rank) { return of_rank.second.size() > 1; });
  if (twice == all.pids.end()) {
    return std::nullopt;
  }
  RankSet culprits;
  for (const auto& [rank, pids] : all.pids) {
    if (pids.size() > 1) {
      culprits.insert(rank);
    }
  }
  Verdict v = verdict_on(scene, culprits, Confidence::high);
  const RankSet missing = all.missing();
  std::string others;
  for (auto it = std::next(twice); it != all.pids.end(); ++it) {
    others += it->second.size() > 1 ? tr(", {} as rank {}", it->second.size(), it->first) : "";
  }
  say(v, tr("{} processes have called {} as rank {} of {} (pids {}){}{}", twice->second.size(),
            where_they_wait(v), twice->first, all.size, fmt::join(twice->second, ", "), others,
            missing.empty() ? "" : tr(", and none as {}", rank_words(missing))));
  v.next.text = tr("give every process a rank of its own: RANK, or the argument of init_process_group");
  return v;
}

std::optional<Verdict> other_place(const Scene& scene, const Joiners& all) {
  if (all.places.size() < 2) {
    return std::nullopt;
  }
  const auto most = std::max_element(all.places.begin(), all.places.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  const bool tie = std::count_if(all.places.begin(), all.places.end(),
                                 [&](const auto& p) { return p.second.size() == most->second.size(); }) > 1;
  RankSet culprits;
  std::string where;
  for (const model::RankCollectives& r : scene.facts.collectives.ranks) {
    const std::string key = place_of(r.joining);
    const auto place = all.places.find(key);
    if (r.joining.empty() || place == all.places.end() || place->second.lowest() != r.joining.rank) {
      continue;
    }
    where += tr("{}{} at {}", where.empty() ? "" : tr(", "), rank_words(place->second),
                r.joining.place.empty() ? tr("a place that is not known") : base::sanitize(r.joining.place));
    if (!tie && key != most->first) {
      culprits.insert(place->second);
    }
  }
  Verdict v = verdict_on(scene, culprits, tie ? Confidence::medium : Confidence::high);
  say(v, tr("ranks have waited for each other at different places in {} for {}: {}", where_they_wait(v),
            seconds_words(v.seconds), where));
  v.next.text = tr("give all ranks the same MASTER_ADDR and MASTER_PORT, or the same init_method");
  return v;
}

// From a look at a job, less says nothing.
constexpr double kStartSeconds = 60;

}  // namespace

std::optional<Verdict> not_all_joined(const Scene& scene) {
  const auto all = joiners(scene);
  if (!all || !scene.unheard().empty()) {
    return std::nullopt;
  }
  if (auto v = used_twice(scene, *all)) {
    return v;
  }
  if (all->some_ended) {
    return std::nullopt;  // who has ended comes first
  }
  if (auto v = other_place(scene, *all)) {
    return v;
  }
  const RankSet missing = all->missing();
  if (missing.empty()) {
    return std::nullopt;
  }
  const RankSet come = ranks_of(scene.in({RankState::waiting}));
  if (!all->local && scene.facts.run.nodes.size() <= 1) {
    Verdict v = verdict_on(scene, {}, Confidence::low);
    v.id = kHangAllWaiting;
    say(v, tr("{} {} waited in {} for {}; {} of {} {} not on this host or never started", rank_words(come),
              pick({"has", "have"}, come.size()), where_they_wait(v), seconds_words(v.seconds),
              rank_words(missing), all->size, pick({"is", "are"}, missing.size())));
    v.next.text = tr("look at the other hosts' runs: one of their ranks is missing in this call");
    return v;
  }
  Verdict v = verdict_on(scene, missing, Confidence::high);
  if (const model::PythonException* raised = missing.size() == 1 ? unseen_exception(scene) : nullptr) {
    v.confidence = Confidence::medium;
    say(v, tr("{} of {} has not come: pid {} {}; {} {} waited for it in {} for {}", rank_words(missing),
              all->size, raised->pid, raised_words(*raised), rank_words(come),
              pick({"has", "have"}, come.size()), where_they_wait(v), seconds_words(v.seconds)));
    v.next.text = advice_on(*raised);
    return v;
  }
  // Some launchers start their ranks one after the other.
  if (scene.facts.run.judged_now && v.seconds < kStartSeconds) {
    accuse_nobody(v);
    say(v, tr("{} of {} {} not started yet; {} {} waited for {} in {} for {}", rank_words(missing), all->size,
              pick({"has", "have"}, missing.size()), rank_words(come), pick({"has", "have"}, come.size()),
              pick({"it", "them"}, missing.size()), where_they_wait(v), seconds_words(v.seconds)));
    v.next.text = tr("look again in a minute: the job may still be starting");
    return v;
  }
  say(v, tr("{} of {} {} never started; {} {} waited for {} in {} for {}", rank_words(missing), all->size,
            pick({"was", "were"}, missing.size()), rank_words(come), pick({"has", "have"}, come.size()),
            pick({"it", "them"}, missing.size()), where_they_wait(v), seconds_words(v.seconds)));
  v.next.text =
      tr("start {}, or give all ranks the number of ranks that are started: WORLD_SIZE, or the "
         "argument of init_process_group",
         rank_words(missing));
  return v;
}

}  // namespace xpurun::report
