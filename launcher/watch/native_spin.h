// NativeSpin: whether a native thread that never leaves its CPU gets anywhere. A loop that waits for a flag,
// or for a lock of the program itself, meets a few states of the registers again and again; code that
// computes changes an index, a counter or a value. Pure.
#pragma once

#include "stackdump/ptrace/registers.h"

#include <cstddef>
#include <cstdint>
#include <set>

namespace xpurun::launcher {

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
