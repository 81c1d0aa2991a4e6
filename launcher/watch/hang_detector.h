// HangDetector: turns the still times of the ranks into events. Pure: no clock, no process. A stall is raised
// when a rank has been still for the timeout. Time without a CPU proves nothing and does not count, up to
// kMostStarved timeouts. Every rank that is still at that time, or becomes still while the stall is open,
// belongs to the stall: one stall, one dump. The stall is cleared when all of its ranks have made progress or
// ended. Only then can a new stall be raised.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"

#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace xpurun::launcher {

struct StillRank {
  base::Rank rank = base::kNoRank;
  base::MonoNs last_progress = 0;
  base::MonoNs starved = 0;  // since then: ready to run, but without a CPU
};

struct StallEvents {
  bool raised = false;     // request a dump and a verdict
  bool escalated = false;  // a suspected stall has outlasted busy_timeouts x timeout; never with `raised`
  bool cleared = false;
  base::Rank longest = base::kNoRank;  // raised: the rank that has been still longest
};

class HangDetector {
 public:
  // With too few CPUs, an endless loop is reported after this many additional timeouts at the latest.
  static constexpr int kMostStarved = 3;

  // timeout_s 0: never raises.
  HangDetector(double timeout_s, int busy_timeouts);

  // Dead ranks are absent from the input. `cleared` may come together with a new `raised`.
  StallEvents update(base::MonoNs now, const std::vector<StillRank>& ranks);

  // xpurun itself has held the ranks for this duration (a dump, cuda-gdb), so their stillness proves nothing:
  // an open stall stays suspected for that much longer.
  void held_up(base::MonoNs duration) { held_up_ += duration; }

  // The latest time for the next update(), given the last input; empty if none is needed.
  std::optional<base::MonoNs> next_deadline() const { return next_deadline_; }
  double timeout_s() const { return base::ns_to_s(timeout_); }

 private:
  struct Member {
    base::Rank rank;
    base::MonoNs last_progress;  // at the time of joining; later progress ends the membership
    base::MonoNs still_since;    // at the time of joining
    friend bool operator<(const Member& a, const Member& b) {
      return std::tie(a.rank, a.last_progress) < std::tie(b.rank, b.last_progress);
    }
  };

  // The instant from which the stillness of the rank counts.
  base::MonoNs still_since(const StillRank& rank) const;

  base::MonoNs timeout_;
  int busy_timeouts_;
  bool open_ = false;
  bool escalated_ = false;
  base::MonoNs held_up_ = 0;  // during the open stall
  std::set<Member> members_;
  std::optional<base::MonoNs> next_deadline_;
};

}  // namespace xpurun::launcher
