// The period of a sequence of calls: the smallest number of calls after which the sequence repeats itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace xpurun::report {

struct TokenPeriod {
  size_t length = 0;  // 0: none
  double match = 0;   // share of tokens that are equal to the one a period later
};

// Needs at least `least_periods` periods. A sequence of one kind of token has the period 1. Linear in the
// number of tokens, of which the latest 65,536 count.
TokenPeriod find_period(std::span<const uint64_t> tokens, size_t least_periods = 3);

}  // namespace xpurun::report
