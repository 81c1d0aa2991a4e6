// Routine: what a rank does again and again, learnt from its own calls alone, and the calls that depart from
// it. Calls are small numbers, equal for equal calls. Pure.
#pragma once

#include "common/model/vocabulary.h"

#include <cstddef>
#include <span>
#include <vector>

namespace xpurun::report {

// Calls after a surprise that say nothing by themselves.
inline constexpr size_t kRecovery = 8;

// A call that never came after the calls before it, although these had come several times.
struct Surprise {
  size_t at = 0;        // index of the call
  int expected = -1;    // what came after them most often
  size_t repeated = 0;  // how often `expected` came there
  model::Departure kind = model::Departure::other;
  size_t left_out = 0;  // skipped: number of calls left out, `expected` first
};

// Empty if the calls follow no routine, or too few are known. Takes time and memory in the square of the
// number of calls, which is at most a few hundred.
std::vector<Surprise> surprises(std::span<const int> calls);

}  // namespace xpurun::report
