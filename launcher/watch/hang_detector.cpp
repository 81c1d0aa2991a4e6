#include "launcher/watch/hang_detector.h"

#include "report/diagnosis/waits/still_limit.h"

#include <utility>

namespace xpurun::launcher {

HangDetector::HangDetector(double timeout_s, int busy_timeouts, double proof_grace_s)
    : full_timeout_(base::s_to_ns(timeout_s)),
      timeout_(full_timeout_),
      proof_grace_(std::min(base::s_to_ns(proof_grace_s), full_timeout_)),
      busy_timeouts_(busy_timeouts) {}

base::MonoNs HangDetector::timeout_of(const StillRank& rank) const {
  return rank.proved ? std::min(timeout_, kProved) : timeout_;
}

base::MonoNs HangDetector::still_since(const StillRank& rank) const {
  // Bounded: on an overloaded node a rank may be without a CPU for most of the time, and its hang must still
  // be found.
  return rank.last_progress + std::min(rank.starved, timeout_ * kMostStarved);
}

void HangDetector::settle(base::MonoNs now, Known& known, const StillRank& input) {
  const StillRank& old = known.rank;
  const bool differs =
      input.waits_for != old.waits_for || input.with != old.with || input.condition != old.condition;
  if (!differs) {
    known.coming_since = -1;
  } else if (known.coming_since < 0 || input.waits_for != known.coming.waits_for ||
             input.with != known.coming.with || input.condition != known.coming.condition) {
    known.coming_since = now;
  }
  known.coming = input;
  known.rank.starved = input.starved;
  if (!differs) {
    return;
  }
  if (now - known.coming_since >= known.settles) {
    known.rank = input;
    known.coming_since = -1;
    known.settles *= 2;
  } else if (is_member(known.rank)) {
    wake_at(known.coming_since + known.settles);
  }
}

void HangDetector::learn(base::MonoNs now, const std::vector<StillRank>& ranks) {
  std::map<base::Rank, Known> known;
  for (const StillRank& r : ranks) {
    const auto old = known_.find(r.rank);
    const bool same = old != known_.end() && old->second.rank.last_progress == r.last_progress;
    Known& next = known[r.rank];
    if (same && is_member(r)) {
      next = std::move(old->second);
      settle(now, next, r);
    } else {
      next = {.rank = r, .coming = r, .settles = std::min(kSettled, timeout_)};
    }
  }
  known_ = std::move(known);
}

bool HangDetector::is_member(const StillRank& rank) const {
  return std::any_of(stalls_.begin(), stalls_.end(), [&](const auto& entry) {
    const auto member = entry.second.members.find(rank.rank);
    return member != entry.second.members.end() && member->second.last_progress == rank.last_progress;
  });
}

// Ranks that made progress or ended leave their stalls.
void HangDetector::remove_moved(std::vector<StallEvent>& events) {
  for (auto& [n, stall] : stalls_) {
    const size_t left = std::erase_if(stall.members, [&](const auto& member) {
      const auto known = known_.find(member.first);
      return known == known_.end() || known->second.rank.last_progress != member.second.last_progress;
    });
    stall.regrouped |= left > 0;
    if (stall.members.empty()) {
      events.push_back({.change = StallChange::cleared, .stall = n});
    }
  }
  std::erase_if(stalls_, [](const auto& entry) { return entry.second.members.empty(); });
}

// A member stays one until it makes progress, even if it starves meanwhile.
std::vector<StillRank> HangDetector::due_ranks(base::MonoNs now) {
  std::vector<StillRank> out;
  for (const auto& [rank, known] : known_) {
    const base::MonoNs due = still_since(known.rank) + timeout_of(known.rank);
    if (now >= due || is_member(known.rank)) {
      out.push_back(known.rank);
    } else {
      wake_at(due);
    }
  }
  return out;
}

// A rank that waits, and has been still for nearly as long as the ranks that are due: one cause may have
// stopped them, and a verdict on the others alone would miss it. Ranks that do not wait may be working.
bool HangDetector::is_almost_due(base::MonoNs now, const StillRank& rank) const {
  const bool waits = rank.waits_for == WaitTarget::peers || rank.waits_for == WaitTarget::helpers;
  return waits && now >= still_since(rank) + timeout_ - std::min(kNearNs, timeout_ / 2);
}

// The groups of the ranks that are due. If that changes a stall, with the ranks that are almost due.
std::vector<model::RankSet> HangDetector::groups_of(base::MonoNs now) {
  std::vector<StillRank> ranks = due_ranks(now);
  if (std::all_of(ranks.begin(), ranks.end(), [&](const StillRank& r) { return is_member(r); })) {
    return stall_groups(ranks);
  }
  const size_t due = ranks.size();
  for (const auto& [rank, known] : known_) {
    const bool is_due = std::any_of(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(due),
                                    [&, n = rank](const StillRank& r) { return r.rank == n; });
    if (!is_due && is_almost_due(now, known.rank)) {
      ranks.push_back(known.rank);
    }
  }
  std::vector<model::RankSet> groups = stall_groups(ranks);
  std::erase_if(groups, [&](const model::RankSet& group) {
    return std::none_of(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(due),
                        [&](const StillRank& r) { return group.contains(r.rank); });
  });
  return groups;
}

// The open stall that each group continues; 0: none. A stall goes on in the group with most of its members.
std::vector<int> HangDetector::stalls_of(const std::vector<model::RankSet>& groups) const {
  std::vector<int> out(groups.size(), 0);
  for (const auto& [n, stall] : stalls_) {
    size_t best = 0;
    size_t most = 0;
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto shared = static_cast<size_t>(
          std::count_if(stall.members.begin(), stall.members.end(),
                        [&](const auto& member) { return groups[i].contains(member.first); }));
      if (shared > most) {
        best = i;
        most = shared;
      }
    }
    if (most > 0 && out[best] == 0) {
      out[best] = n;
    }
  }
  return out;
}

void HangDetector::take_in(const model::RankSet& group, Stall& stall) {
  for (const base::Rank rank : group.ranks()) {
    if (stall.members.count(rank) != 0) {
      continue;
    }
    bool moved = false;
    for (auto& [n, other] : stalls_) {
      const bool left = other.members.erase(rank) > 0;
      other.regrouped |= left;
      moved |= left;
    }
    const StillRank& r = known_.at(rank).rank;
    const bool only_waits = r.waits_for == WaitTarget::peers;
    stall.members[rank] = {.last_progress = r.last_progress,
                           .still_since = still_since(r),
                           .due = only_waits ? 0 : still_since(r) + timeout_,
                           .condition = r.condition,
                           .was_due = only_waits};
    stall.regrouped = true;
    stall.new_culprit |= moved || !only_waits;
  }
}

void HangDetector::remove_merged(std::vector<StallEvent>& events) {
  std::erase_if(stalls_, [&](const auto& entry) {
    if (!entry.second.members.empty()) {
      return false;
    }
    events.push_back({.change = StallChange::merged, .stall = entry.first});
    return true;
  });
}

model::RankSet HangDetector::living() const {
  std::vector<base::Rank> out;
  for (const auto& [rank, known] : known_) {
    out.push_back(rank);
  }
  return model::RankSet::of(out);
}

StallEvent HangDetector::event(StallChange change, int n, const Stall& stall) {
  StallEvent out{.change = change, .stall = n};
  base::MonoNs oldest = INT64_MAX;
  for (const auto& [rank, member] : stall.members) {
    out.ranks.insert(rank);
    if (member.still_since < oldest) {
      oldest = member.still_since;
      out.longest = rank;
    }
  }
  return out;
}

void HangDetector::note_judged(base::MonoNs now, Stall& stall) const {
  stall.judged_at = now;
  stall.changed_since = -1;
  stall.living = living();
  stall.regrouped = false;
  stall.new_culprit = false;
  for (auto& [rank, member] : stall.members) {
    member.condition = known_.at(rank).rank.condition;
    member.was_due = now >= member.due;
  }
}

bool HangDetector::became_due(base::MonoNs now, const Stall& stall) {
  bool out = false;
  for (const auto& [rank, member] : stall.members) {
    if (now < member.due) {
      wake_at(member.due);
    }
    out |= !member.was_due && now >= member.due;
  }
  return out;
}

bool HangDetector::condition_changed(const Stall& stall) const {
  return std::any_of(stall.members.begin(), stall.members.end(), [&](const auto& member) {
    return known_.at(member.first).rank.condition != member.second.condition;
  });
}

void HangDetector::judge(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events) {
  const bool due = became_due(now, stall);
  if (!stall.regrouped && stall.living == living() && !condition_changed(stall) && !due) {
    stall.changed_since = -1;
    return;
  }
  stall.changed_since = stall.changed_since < 0 ? now : stall.changed_since;
  const base::MonoNs at = stall.new_culprit || due
                              ? stall.judged_at + kShortestGap
                              : std::max(stall.judged_at + stall.gap, stall.changed_since + kSettled);
  if (now < at) {
    wake_at(at);
    return;
  }
  events.push_back(event(stall.regrouped ? StallChange::joined : StallChange::judge, n, stall));
  stall.gap = std::min(stall.gap * 2, std::max(timeout_, kShortestGap));
  note_judged(now, stall);
}

base::MonoNs HangDetector::oldest_of(const Stall& stall) {
  base::MonoNs out = INT64_MAX;
  for (const auto& [rank, member] : stall.members) {
    out = std::min(out, member.still_since);
  }
  return out;
}

bool HangDetector::some_proved(const Stall& stall) const {
  return std::any_of(stall.members.begin(), stall.members.end(),
                     [&](const auto& member) { return known_.at(member.first).rank.proved; });
}

void HangDetector::become_due(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events) {
  const base::MonoNs at = oldest_of(stall) + full_timeout_;
  if (!stall.early) {
    return;
  }
  if (now < at) {
    wake_at(at);
    return;
  }
  stall.early = false;
  // Those of a stall that was raised early were due after a part of the timeout.
  for (auto& [rank, member] : stall.members) {
    member.due = member.due > 0 ? member.still_since + full_timeout_ : 0;
  }
  events.push_back(event(StallChange::due, n, stall));
  note_judged(now, stall);
}

void HangDetector::end_grace(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events) {
  if (!stall.grace) {
    return;
  }
  const base::MonoNs at = oldest_of(stall) + proof_grace_;
  if (now >= at && stall.judged_at < now) {
    stall.grace = false;
    events.push_back(event(StallChange::judge, n, stall));
  } else {
    wake_at(std::max(at, now));
  }
}

void HangDetector::escalate(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events) {
  if (stall.escalated) {
    return;
  }
  const bool counts_work = busy_timeouts_ > 0;
  const int timeouts = counts_work ? busy_timeouts_ : report::kStillTimeouts;
  const base::MonoNs at = oldest_of(stall) + full_timeout_ * timeouts + stall.held_up;
  // The dump of a stall that was just raised or has changed comes first.
  if (now >= at && stall.judged_at < now) {
    stall.escalated = true;
    events.push_back(event(counts_work ? StallChange::escalated : StallChange::judge, n, stall));
  } else {
    wake_at(at);
  }
}

std::vector<StallEvent> HangDetector::update(base::MonoNs now, const std::vector<StillRank>& ranks) {
  std::vector<StallEvent> events;
  next_deadline_.reset();
  if (timeout_ <= 0) {
    return events;
  }
  learn(now, ranks);
  remove_moved(events);
  const std::vector<model::RankSet> groups = groups_of(now);
  const std::vector<int> stalls = stalls_of(groups);
  std::vector<int> raised;
  for (size_t i = 0; i < groups.size(); ++i) {
    const int n = stalls[i] != 0 ? stalls[i] : ++last_stall_;
    take_in(groups[i], stalls_[n]);
    if (stalls[i] == 0) {
      raised.push_back(n);
    }
  }
  remove_merged(events);
  for (const int n : raised) {
    Stall& stall = stalls_.at(n);
    note_judged(now, stall);
    events.push_back(event(StallChange::raised, n, stall));
    const bool proved = some_proved(stall);
    stall.grace = proved && now < oldest_of(stall) + proof_grace_;
    stall.early = events.back().early = !proved && now < oldest_of(stall) + full_timeout_;
  }
  for (auto& [n, stall] : stalls_) {
    become_due(now, n, stall, events);
    judge(now, n, stall, events);
    end_grace(now, n, stall, events);
    escalate(now, n, stall, events);
  }
  return events;
}

void HangDetector::held_up(base::MonoNs duration) {
  for (auto& [n, stall] : stalls_) {
    stall.held_up += duration;
  }
}

}  // namespace xpurun::launcher
