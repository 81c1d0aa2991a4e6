// The period of a sequence of calls: the smallest number of calls after which the sequence repeats itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

// The calls of one step.
struct CallCycle {
  TokenPeriod period;
  std::vector<uint64_t> tokens;  // of one period; the last one ends a step: the longest pause follows
  size_t phase = 0;              // call n ends a step if n % period.length is this; only if no call is rare
  bool rare_calls = false;       // some calls are not part of every step, such as those of an evaluation
};
// Of calls in order. The same finds steps in a running job and in a finished one. `least`: the shortest
// period of a step. Where it is 1, calls that are made in few steps only and without a longer pause before or
// after them are part of no period.
CallCycle find_cycle(const std::vector<SequenceCall>& calls, size_t least);

// Follows a sequence of calls through its cycle. A call that is not part of the cycle changes nothing; after
// a call too few or too many, the next calls show the position.
class CyclePosition {
 public:
  explicit CyclePosition(std::vector<uint64_t> cycle) : cycle_(std::move(cycle)) {}

  // The call's position in the cycle; none: the call is not part of the cycle.
  std::optional<size_t> take(uint64_t token);

 private:
  std::vector<uint64_t> cycle_;
  size_t next_ = 0;
  uint64_t last_ = 0;
};

}  // namespace xpurun::report
