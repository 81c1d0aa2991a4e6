// HangDetector: turns the still times of the ranks into events about stalls. Pure: no clock, no process.
//
// A stall is a group of ranks that wait for each other (stall_groups.h). Each stall has its own life: it is
// raised when a rank of the group has been still for the timeout, together with the ranks of the group that
// wait and are almost due; judged again when ranks join or leave it or become due, when ranks of the job
// appear or end, and when the condition of a member changes; escalated once, if
// --busy-timeouts is given; cleared when all of its ranks have made progress or ended. Time without a CPU
// proves nothing and does not count as stillness, up to kMostStarved timeouts.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/rank_set.h"
#include "launcher/watch/stall_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace xpurun::launcher {

enum class StallChange {
  raised,     // a new stall: request a dump and a verdict
  joined,     // other ranks have joined or left: the stacks are old
  judge,      // other ranks of the job, or the condition of a member, have changed
  due,        // a stall that was raised early has lasted for the timeout: the stacks are old
  escalated,  // a suspected stall has outlasted the busy timeouts; never together with another change
  merged,     // its ranks belong to another stall now
  cleared,
};

struct StallEvent {
  StallChange change = StallChange::raised;
  int stall = 0;                       // 1, 2, ...
  model::RankSet ranks = {};           // the members; empty if the stall has ended
  base::Rank longest = base::kNoRank;  // the member that has been still longest
  bool early = false;                  // raised: before the timeout, because somebody has looked
};

class HangDetector {
 public:
  // With too few CPUs, an endless loop is reported after this many additional timeouts at the latest.
  static constexpr int kMostStarved = 3;
  // A changed condition or relation of a still rank counts when it has lasted for this time, or one timeout.
  // A stall that has changed is judged again after this time, because the other ranks often follow at once.
  static constexpr base::MonoNs kSettled = 1'000'000'000;
  // The least time between two judgements of a stall. Doubled by each judgement, up to the timeout, and back
  // at this value where a new culprit has joined.
  static constexpr base::MonoNs kShortestGap = 1'500'000'000;

  // A rank that is proved to stand is a stall after this time, if the timeout is longer.
  static constexpr base::MonoNs kProved = 1'000'000'000;

  // proof_grace_s: a stall that was raised by a proof is judged again when it has lasted for this time.
  // timeout_s 0: never raises. busy_timeouts 0: never escalates; the stall is judged again after
  // kStillTimeouts, because ranks that do not work at all are a hang by then.
  HangDetector(double timeout_s, int busy_timeouts, double proof_grace_s = 0);

  // Dead ranks are absent from the input. Ended stalls come first.
  std::vector<StallEvent> update(base::MonoNs now, const std::vector<StillRank>& ranks);

  // xpurun itself has held the ranks for this duration (a dump, cuda-gdb), so their stillness proves nothing:
  // open stalls stay suspected for that much longer.
  void held_up(base::MonoNs duration);

  // The latest time for the next update(), given the last input; empty if none is needed.
  std::optional<base::MonoNs> next_deadline() const { return next_deadline_; }
  double timeout_s() const { return base::ns_to_s(timeout_); }
  // From the next update() on. With less than the timeout of the constructor, stalls are raised early.
  void set_timeout(double timeout_s) { timeout_ = base::s_to_ns(timeout_s); }

 private:
  // A rank as of the last update. A relation or condition that differs counts once it has lasted.
  struct Known {
    StillRank rank;
    StillRank coming;                // with the latest relation and condition
    base::MonoNs coming_since = -1;  // -1: nothing differs
    base::MonoNs settles = 0;        // doubled by each change, so that a rank cannot change all the time
  };
  struct Member {
    base::MonoNs last_progress = 0;  // at the time of joining; later progress ends the membership
    base::MonoNs still_since = 0;    // at the time of joining
    base::MonoNs due = 0;            // from this instant on, the rank may be the culprit; 0: it only waits
    unsigned condition = 0;          // at the last judgement
    bool was_due = false;            // at the last judgement
  };
  struct Stall {
    std::map<base::Rank, Member> members;
    model::RankSet living;            // all ranks of the job at the last judgement
    bool regrouped = false;           // ranks have joined or left since the last judgement
    bool new_culprit = false;         // a rank that may be the culprit has joined since then
    base::MonoNs changed_since = -1;  // -1: as it was judged
    base::MonoNs judged_at = 0;
    base::MonoNs gap = kShortestGap;
    base::MonoNs held_up = 0;
    bool escalated = false;  // or judged after kStillTimeouts
    bool grace = false;      // raised by a proof, before the end of the grace
    bool early = false;      // raised before the timeout, which has not passed yet
  };

  // The instant from which the stillness of the rank counts.
  base::MonoNs still_since(const StillRank& rank) const;
  void learn(base::MonoNs now, const std::vector<StillRank>& ranks);
  void settle(base::MonoNs now, Known& known, const StillRank& input);
  bool is_member(const StillRank& rank) const;
  std::vector<StillRank> due_ranks(base::MonoNs now);
  bool is_almost_due(base::MonoNs now, const StillRank& rank) const;
  std::vector<model::RankSet> groups_of(base::MonoNs now);
  void remove_moved(std::vector<StallEvent>& events);
  std::vector<int> stalls_of(const std::vector<model::RankSet>& groups) const;
  void take_in(const model::RankSet& group, Stall& stall);
  void remove_merged(std::vector<StallEvent>& events);
  void judge(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events);
  static base::MonoNs oldest_of(const Stall& stall);
  void become_due(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events);
  void escalate(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events);
  void note_judged(base::MonoNs now, Stall& stall) const;
  bool condition_changed(const Stall& stall) const;
  bool became_due(base::MonoNs now, const Stall& stall);
  model::RankSet living() const;
  static StallEvent event(StallChange change, int n, const Stall& stall);
  void wake_at(base::MonoNs at) { next_deadline_ = std::min(next_deadline_.value_or(INT64_MAX), at); }

  base::MonoNs timeout_of(const StillRank& rank) const;
  bool some_proved(const Stall& stall) const;
  void end_grace(base::MonoNs now, int n, Stall& stall, std::vector<StallEvent>& events);

  base::MonoNs full_timeout_;
  base::MonoNs timeout_;      // at present
  base::MonoNs proof_grace_;  // at most the full timeout
  int busy_timeouts_;
  int last_stall_ = 0;
  std::map<int, Stall> stalls_;  // open ones
  std::map<base::Rank, Known> known_;
  std::optional<base::MonoNs> next_deadline_;
};

}  // namespace xpurun::launcher
