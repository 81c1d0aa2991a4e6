// HeapHistory: what each stack of a rank held over time, and how much it has grown since about the middle of
// that time. Memory that is taken and given back is no growth: the lowest of the latest readings counts
// against the highest of those in the middle. Pure, bounded memory.
#pragma once

#include "common/base/clock.h"
#include "launcher/heap/heap_reader.h"

#include <cstdint>
#include <vector>

namespace xpurun::launcher {

class HeapHistory {
 public:
  // In the order of time. `steps`: that the rank has made; 0: unknown.
  void add(base::MonoNs at, uint64_t steps, const HeldByStack& held);

  struct Growth {
    HeldByStack grown{};
    uint64_t steps = 0;     // in which it grew
    base::MonoNs time = 0;  // in which it grew; 0: too few readings
  };
  Growth growth() const;

 private:
  struct Reading {
    base::MonoNs at = 0;
    uint64_t steps = 0;
    HeldByStack held{};
  };
  std::vector<Reading> kept_;
  size_t every_ = 1;  // so many readings, one is kept
  size_t passed_ = 0;
};

}  // namespace xpurun::launcher
