// Lateness: which ranks of this node arrive late at collectives, what that costs the others, and how much of
// a rank's time collectives take that no compute hides. Fed with the calls of times in which every collective
// was timed, window by window. Pure: no clock. Bounded memory.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "report/speed/primitives/intervals.h"

#include <cstdint>
#include <map>
#include <vector>

namespace xpurun::launcher {

struct RankLateness {
  // Sums over all windows.
  double looked_s = 0;  // length of the windows in which the rank took part in collectives
  double late_s = 0;    // by how much it arrived after the median of the others
  double cost_s = 0;    // by how much it arrived last, after the last but one
  // Of the latest window, as shares of its time; negative: unknown.
  double late_share = -1;
  double exposed_share = -1;  // collectives that none of the recorded compute hides
};

class Lateness {
 public:
  // `group` and `sequence` are equal on all ranks of the collective, and on no other.
  struct Collective {
    uint64_t group = 0;
    uint64_t sequence = 0;
    base::MonoNs begin = 0;
    base::MonoNs end = 0;
  };

  void add(base::Rank rank, const Collective& one);
  void add_compute(base::Rank rank, base::MonoNs begin, base::MonoNs end);
  bool empty() const { return collectives_ == 0; }

  // Judges the collectives that began between these times, and forgets all.
  void finish_window(base::MonoNs from, base::MonoNs until);

  RankLateness of(base::Rank rank) const;

 private:
  struct Work {
    std::vector<report::Interval> collectives;
    std::vector<report::Interval> compute;
  };
  struct Arrival {
    base::Rank rank;
    base::MonoNs begin;
  };
  using Arrivals = std::map<uint64_t, std::vector<Arrival>>;  // by sequence number

  void judge(const std::vector<Arrival>& arrivals, std::map<base::Rank, double>& late_s);

  size_t collectives_ = 0;
  size_t compute_ = 0;
  bool overflown_ = false;  // a window with too many calls says nothing
  std::map<uint64_t, Arrivals> groups_;
  std::map<base::Rank, Work> work_;
  std::map<base::Rank, RankLateness> ranks_;
};

}  // namespace xpurun::launcher
