// How many calls there were for each timed call. All calls are numbered, timed or not, so the distance
// between the numbers of two timed calls is the number of calls. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace xpurun::report {

// What is counted together: the collectives of a communicator, or the calls of an entry of a process.
using NumberedCalls = std::pair<uint64_t, uint64_t>;

class CallNumbers {
 public:
  // A timed call. Numbers have 32 bits and may start anew once.
  void add(const NumberedCalls& of, uint32_t number);
  // Calls for each timed one, at least 1; negative: unknown, because only one call was timed or the calls
  // have no numbers.
  double scale(const NumberedCalls& of) const;

 private:
  struct Range {
    uint32_t first = 0;  // number of the first call that was added
    int64_t lowest = 0;  // both relative to `first`
    int64_t highest = 0;
    uint64_t count = 0;
  };
  std::map<NumberedCalls, Range> ranges_;
};

}  // namespace xpurun::report
