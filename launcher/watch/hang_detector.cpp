#include "launcher/watch/hang_detector.h"

#include <algorithm>

namespace xpurun::launcher {

HangDetector::HangDetector(double timeout_s, int busy_timeouts)
    : timeout_(base::s_to_ns(timeout_s)), busy_timeouts_(std::max(1, busy_timeouts)) {}

base::MonoNs HangDetector::still_since(const StillRank& rank) const {
  // Bounded: on an overloaded node a rank may be without a CPU for most of the time, and its hang must still
  // be found.
  return rank.last_progress + std::min(rank.starved, timeout_ * kMostStarved);
}

StallEvents HangDetector::update(base::MonoNs now, const std::vector<StillRank>& ranks) {
  StallEvents events;
  next_deadline_.reset();
  if (timeout_ <= 0) {
    return events;
  }
  // Ranks that made progress or ended leave the stall.
  const auto is_still_member = [&](const Member& m) {
    return std::any_of(ranks.begin(), ranks.end(), [&](const StillRank& r) {
      return r.rank == m.rank && r.last_progress == m.last_progress;
    });
  };
  std::erase_if(members_, [&](const Member& m) { return !is_still_member(m); });
  if (open_ && members_.empty()) {
    open_ = false;
    escalated_ = false;
    events.cleared = true;
  }

  base::MonoNs oldest = now;
  base::MonoNs oldest_member = now;
  for (const StillRank& r : ranks) {
    const base::MonoNs since = still_since(r);
    const bool due = now - since >= timeout_;
    const bool member = members_.count({r.rank, r.last_progress, since}) != 0;
    // An open stall takes new ranks in, so that one hang of many ranks gives one dump.
    if (due && !member && !open_) {
      events.raised = true;
    }
    if (!due) {
      next_deadline_ = std::min(next_deadline_.value_or(INT64_MAX), since + timeout_);
    }
    if (since < oldest || events.longest == base::kNoRank) {
      oldest = since;
      events.longest = r.rank;
    }
  }
  for (const StillRank& r : ranks) {
    if (const base::MonoNs since = still_since(r); (open_ || events.raised) && now - since >= timeout_) {
      members_.insert({r.rank, r.last_progress, since});
    }
  }
  if (events.raised) {
    open_ = true;
    held_up_ = 0;
  }
  for (const Member& m : members_) {
    oldest_member = std::min(oldest_member, m.still_since);
  }
  if (open_ && !escalated_) {
    const base::MonoNs escalation = oldest_member + timeout_ * busy_timeouts_ + held_up_;
    if (now >= escalation && !events.raised) {
      escalated_ = true;
      events.escalated = true;
    } else {
      next_deadline_ = std::min(next_deadline_.value_or(INT64_MAX), escalation);
    }
  }
  return events;
}

}  // namespace xpurun::launcher
