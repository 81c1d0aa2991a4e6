// TightLoop: the motion of a thread's Python position, without that of a tight loop: a thread that never
// sleeps and circles in one function without changing a variable, as in `while True: pass`. Samples of such a
// loop meet different instructions, and prove no progress. Code that does not loop goes forward only, so that
// an instruction further on than all before is progress. Pure.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "stackdump/resolve/position.h"

#include <deque>

namespace xpurun::launcher {

class TightLoop {
 public:
  // Takes one sample: the position, and the thread's run time up to now. Returns whether the sample shows
  // progress since the one before; the first one does.
  bool moves(base::MonoNs now, const stackdump::Position& position, const base::ProcRunTime& run_time);
  // Whether the thread was seen to circle, so that it stands still although it has a CPU.
  bool circling() const { return circling_; }
  // No position can be read.
  void forget() { *this = {}; }
  // The thread was stopped for a dump since the last sample, so that its run time says nothing.
  void held() { times_.clear(); }

 private:
  struct Time {
    base::MonoNs at = 0;
    uint64_t ran_ns = 0;  // on a CPU or ready to run
  };
  bool never_slept(const Time& now) const;

  uint64_t fingerprint_ = 0;
  uint64_t around_ = 0;
  std::deque<Time> times_;  // of the last samples since `around_` changed or the thread slept
  bool circling_ = false;
  int64_t furthest_ = 0;  // instruction that a sample has met since then
};

}  // namespace xpurun::launcher
