// The period of a sequence of calls: the smallest number of calls after which the sequence repeats itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace xpurun::report {

struct TokenPeriod {
  size_t length = 0;  // 0: none
  double match = 0;   // share of tokens that are equal to the one a period later
};

// Needs at least `least_periods` periods. A sequence of one kind of token has the period 1. Linear in the
// number of tokens, of which the latest 65,536 count.
TokenPeriod find_period(std::span<const uint64_t> tokens, size_t least_periods = 3);

// "inferred from 5 collectives that repeat (98 % alike)"
std::string repeating_words(const TokenPeriod& period);

struct SequenceCall {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t token = 0;  // equal for alike calls
};

struct CallCycle {
  TokenPeriod period;
  size_t phase = 0;  // call n ends a step if n % period.length is this: the longest pause follows
};
// Of calls in order. The same finds steps in a running job and in a finished one.
CallCycle find_cycle(const std::vector<SequenceCall>& calls);

}  // namespace xpurun::report
