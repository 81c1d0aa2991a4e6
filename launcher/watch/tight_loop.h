// TightLoop: the motion of a thread's Python position, without that of a tight loop: a thread that never
// sleeps and circles in one function without changing a variable, as in `while True: pass`. Samples of such a
// loop meet different instructions, and prove no progress. Code that does not loop goes forward only, so that
// an instruction further on than all before is progress. Pure.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "stackdump/ptrace/registers.h"
#include "stackdump/resolve/position.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

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

// Whether a native thread that never leaves its CPU gets anywhere. A loop that waits for a flag, or for a
// lock of the program itself, meets a few states of the registers again and again; code that computes changes
// an index, a counter or a value. Pure.
class NativeSpin {
 public:
  // Takes one sample: the registers of the thread; whether they show progress since the samples before.
  bool moves(const stackdump::Registers& registers);
  // The thread has slept, or called the kernel.
  void forget() { states_.clear(); }

 private:
  // A loop that waits has fewer; the oldest need not be known, because a thread that goes on has all others
  // new.
  static constexpr size_t kMost = 512;
  std::set<uint64_t> states_;
};

}  // namespace xpurun::launcher
