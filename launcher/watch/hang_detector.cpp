#include "launcher/watch/hang_detector.h"

#include <algorithm>

namespace xpurun::launcher {

HangDetector::HangDetector(double timeout_s, int busy_timeouts)
    : timeout_(base::s_to_ns(timeout_s)), busy_timeouts_(std::max(1, busy_timeouts)) {}

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
    const bool due = now - r.last_progress >= timeout_;
    const bool member = members_.count({r.rank, r.last_progress}) != 0;
    if (due && !member && !open_) {
      events.raised = true;
    }
    if (!due) {
      next_deadline_ = std::min(next_deadline_.value_or(INT64_MAX), r.last_progress + timeout_);
    }
    if (r.last_progress < oldest || events.longest == base::kNoRank) {
      oldest = r.last_progress;
      events.longest = r.rank;
    }
  }
  for (const StillRank& r : ranks) {
    if ((open_ || events.raised) && now - r.last_progress >= timeout_) {
      members_.insert({r.rank, r.last_progress});
    }
  }
  if (events.raised) {
    open_ = true;
    held_up_ = 0;
  }
  for (const Member& m : members_) {
    oldest_member = std::min(oldest_member, m.last_progress);
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
