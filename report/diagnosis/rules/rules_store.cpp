// Ranks whose program asks torch's store for a key: the wait ends when another rank, or a process outside of
// the job, sets the key. It is no call that the other ranks make too.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/vocabulary.h"

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::Verdict;

namespace {

std::string key_words(const RankView& v) {
  return v.where.target.empty() ? tr("a key of the store")
                                : tr("{} of the store", base::sanitize(v.where.target));
}

// "ranks 1-2 wait for key lr/40 of the store in follower (train.py:6)". Ranks at one line may ask for
// different keys.
std::string waits_for_keys(const Scene& scene, const Views& asking) {
  std::map<std::pair<std::string, std::string>, Views> by_key;
  for (const RankView* v : asking) {
    by_key[{key_words(*v), short_place(v->where)}].push_back(v);
  }
  std::string out;
  size_t shown = 0;
  for (const RankView* v : asking) {
    const auto group = by_key.extract({key_words(*v), short_place(v->where)});
    if (group.empty()) {
      continue;
    }
    if (shown++ == kMostClauses) {
      return out + tr(", ...");
    }
    model::CodeLocation where = v->where;
    where.target.clear();
    out += tr("{}{} {} for {} in {}", shown == 1 ? "" : tr(", "), scene.names(ranks_of(group.mapped())),
              pick({"waits", "wait"}, group.mapped().size()), key_words(*v), place(where));
  }
  return out;
}

}  // namespace

std::optional<Verdict> key_is_missing(const Scene& scene) {
  const Views waiting = scene.in({RankState::waiting});
  Views asking;
  Views others;
  for (const RankView* v : waiting) {
    (asks_for_key(*v) ? asking : others).push_back(v);
  }
  // Of an older Python the key is not known.
  const bool known =
      std::any_of(asking.begin(), asking.end(), [](const RankView* v) { return !v->where.target.empty(); });
  const bool all_wait = std::all_of(scene.ranks.begin(), scene.ranks.end(), [](const RankView& v) {
    return v.apart || v.state == RankState::waiting;
  });
  // Only one rank is left that can set the key, unless some rank is not seen.
  const bool one_left = others.size() == 1 && scene.unheard().empty() &&
                        scene.facts.run.world_size <= static_cast<int>(waiting.size());
  if (asking.empty() || !all_wait || (!known && !others.empty() && !one_left)) {
    return std::nullopt;
  }
  Verdict v =
      begin_hang(scene, {.id = kHangP2p, .confidence = one_left ? Confidence::medium : Confidence::low},
                 {{.state = RankState::waiting, .views = one_left ? others : Views(asking)}},
                 one_left ? asking : waiting);
  v.seconds = longest(waiting);
  const std::string wait = waits_for_keys(scene, asking);
  if (one_left) {
    const RankView& last = *others.front();
    say(v, tr("{}, which {} has not set, but waits in {}", wait, scene.names({last.rank}),
              waiting_place(last.wait->what, last.wait->where)));
  } else {
    accuse_nobody(v);
    const auto rest = waiting_groups(others);
    say(v, tr("{}, which no rank has set{}", wait,
              rest.empty() ? "" : tr("; {}", waiting_clause(rest, asking.size()))));
  }
  v.next.text =
      tr("find out which rank should set the key, and why it has not: a branch, another name of the "
         "key, or a call before that waits for the ranks without the key");
  return v;
}

}  // namespace xpurun::report
