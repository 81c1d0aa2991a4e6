// Ranks that wait for a lock that processes share: a file lock, or a lock of multiprocessing.
#include "common/base/tr.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/vocabulary.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::Verdict;
using model::VerdictLevel;

// Ranks each of which waits for a lock that the next one holds, the last one for one of the first.
std::optional<Verdict> lock_circle(const Scene& scene) {
  for (const RankView& first : scene.ranks) {
    Views circle;
    const RankView* v = &first;
    while (v != nullptr && v->state == RankState::stuck &&
           std::find(circle.begin(), circle.end(), v) == circle.end()) {
      circle.push_back(v);
      v = lock_holder(scene, *v);
    }
    if (circle.size() < 2 || v != &first) {
      continue;
    }
    std::string parts;
    for (size_t i = 0; i < circle.size() && i < kMostClauses; ++i) {
      const RankView& next = *circle[(i + 1) % circle.size()];
      parts += tr("{}{} in {} for {} that {} holds", i == 0 ? "" : tr(", "), scene.names({circle[i]->rank}),
                  place(circle[i]->where), held_words(*circle[i]), rank_words({next.rank}));
    }
    Verdict out = begin_hang(scene, {.id = kHangLock}, {{.state = RankState::stuck, .views = circle}},
                             scene.in({RankState::waiting}));
    const std::string others = waiting_clause(out.waiting, circle.size());
    say(out, tr("{} have waited for each other's locks for {}: {}{}", rank_words(out.ranks),
                seconds_words(longest(circle)), parts, others.empty() ? "" : tr("; ") + others));
    out.next.text = tr("take the locks in the same order in all processes");
    return out;
  }
  return std::nullopt;
}

// Ranks wait for a lock that another rank holds: the holder keeps it, and the victims are not accused.
std::optional<Verdict> locked(const Scene& scene) {
  const RankView* holder = nullptr;
  Views victims;
  for (const RankView& v : scene.ranks) {
    const RankView* found = v.state == RankState::stuck ? lock_holder(scene, v) : nullptr;
    if (found != nullptr && (holder == nullptr || holder == found)) {
      holder = found;
      victims.push_back(&v);
    }
  }
  if (holder == nullptr) {
    return std::nullopt;
  }
  Views waiting = scene.in({RankState::waiting});
  std::erase(waiting, holder);
  const VerdictLevel level = holder->state != RankState::busy || escalated(scene) ? VerdictLevel::confirmed
                                                                                  : VerdictLevel::suspected;
  Verdict v = begin_hang(scene, {.id = kHangLock, .level = level},
                         {{.state = holder->state, .views = {holder}}}, waiting);
  v.seconds = longest(victims);
  const bool circle = holder->state == RankState::waiting && holder->wait;
  const std::string others = waiting_clause(v.waiting, 1);
  v.waiting.insert(v.waiting.begin(),
                   {.ranks = ranks_of(victims), .what = "lock", .where = victims.front()->where});
  say(v,
      tr("{} holds {} in {}; {} {} waited for the lock in {} for {}{}", scene.names({holder->rank}),
         held_words(*victims.front()),
         circle ? waiting_place(holder->wait->what, holder->wait->where) : place(holder->where),
         rank_words(ranks_of(victims)), pick({"has", "have"}, victims.size()), place(victims.front()->where),
         seconds_words(v.seconds), others.empty() ? "" : tr("; ") + others));
  v.next.text = circle ? tr("release the lock before the call that waits for the other ranks")
                       : tr("find out why {} does not release the lock", place(holder->where));
  return v;
}

// Ranks that look for files of each other.
std::optional<Verdict> looked_for_in_circle(const Scene& scene) {
  const Views circle = poll_circle(scene);
  if (circle.empty()) {
    return std::nullopt;
  }
  Verdict out = begin_hang(scene, {.id = kHangStuck}, {{.state = RankState::stuck, .views = circle}},
                           scene.in({RankState::waiting}));
  std::string parts;
  for (size_t i = 0; i < circle.size() && i < kMostClauses; ++i) {
    parts += tr("{}{} in {} for {}", i == 0 ? "" : tr(", "), scene.names({circle[i]->rank}),
                place(circle[i]->where), polled_name(*circle[i]));
  }
  const std::string others = waiting_clause(out.waiting, circle.size());
  say(out,
      tr("{} have looked for files of each other for {}, none of which exists: {}{}", rank_words(out.ranks),
         seconds_words(longest(circle)), parts, others.empty() ? "" : tr("; ") + others));
  out.next.text = tr("let each rank make its file before it waits for the file of another one");
  return out;
}

// Locks of multiprocessing whose holders are not known.
Verdict shared_locks(const Scene& scene, const Views& living, VerdictLevel level) {
  Verdict v = begin_hang(scene, {.id = kHangLock, .level = level, .confidence = Confidence::low},
                         {{.state = RankState::stuck, .views = living}}, {});
  std::string parts;
  for (size_t i = 0; i < living.size() && i < kMostClauses; ++i) {
    parts +=
        tr("{}{} in {}", i == 0 ? "" : tr(", "), scene.names({living[i]->rank}), place(living[i]->where));
  }
  say(v, tr("{} have waited for locks of multiprocessing for {}: {}, each perhaps for a lock that another "
            "holds",
            rank_words(v.ranks), seconds_words(longest(living)), parts));
  v.next.text = tr("take the locks in the same order in all processes");
  return v;
}

}  // namespace xpurun::report
