// HangDetector: turns "how long has each rank been still" into events. Pure: no clock, no process.
//
// A stall is raised when a rank has been still for the timeout. Every rank that is so by then, or becomes so
// while the stall is open, belongs to it: one stall, one dump. It is cleared when all of them have moved or
// ended; only then can a new one be raised.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"

#include <optional>
#include <set>
#include <vector>

namespace xpurun::launcher {

struct StillRank {
  base::Rank rank = base::kNoRank;
  base::MonoNs last_progress = 0;
};

struct StallEvents {
  bool raised = false;     // take a dump and say who
  bool escalated = false;  // a suspected stall has outlasted busy_timeouts x timeout; never with `raised`
  bool cleared = false;
  base::Rank longest = base::kNoRank;  // raised: the rank that has been still longest
};

class HangDetector {
 public:
  // timeout_s 0: never raises.
  HangDetector(double timeout_s, int busy_timeouts);

  // Ranks that have died are simply absent. `cleared` may come together with a new `raised`.
  StallEvents update(base::MonoNs now, const std::vector<StillRank>& ranks);

  // For so long the ranks were held up by us, so that it says nothing of them that they did not move: an open
  // stall is doubted for longer.
  void held_up(base::MonoNs duration) { held_up_ += duration; }

  // When update() should be called again at the latest, given what was last seen; nothing if never.
  std::optional<base::MonoNs> next_deadline() const { return next_deadline_; }
  double timeout_s() const { return base::ns_to_s(timeout_); }

 private:
  struct Member {
    base::Rank rank;
    base::MonoNs last_progress;  // when it joined; later progress means that it moved
    friend auto operator<=>(const Member&, const Member&) = default;
  };

  base::MonoNs timeout_;
  int busy_timeouts_;
  bool open_ = false;
  bool escalated_ = false;
  base::MonoNs held_up_ = 0;  // since the stall is open
  std::set<Member> members_;
  std::optional<base::MonoNs> next_deadline_;
};

}  // namespace xpurun::launcher
