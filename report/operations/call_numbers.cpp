#include "report/operations/call_numbers.h"

#include <algorithm>

namespace xpurun::report {

void CallNumbers::add(const NumberedCalls& of, uint32_t number) {
  Range& range = ranges_[of];
  if (range.count++ == 0) {
    range.first = number;
    return;
  }
  // The numbers have 32 bits and wrap around. The signed difference is right as long as a range spans fewer
  // than 2^31 calls.
  const auto distance = static_cast<int64_t>(static_cast<int32_t>(number - range.first));
  range.lowest = std::min(range.lowest, distance);
  range.highest = std::max(range.highest, distance);
}

double CallNumbers::scale(const NumberedCalls& of) const {
  const auto found = ranges_.find(of);
  if (found == ranges_.end() || found->second.count < 2) {
    return -1;
  }
  const Range& range = found->second;
  const auto distance = static_cast<double>(range.highest - range.lowest);
  return distance <= 0 ? -1 : std::max(distance / static_cast<double>(range.count - 1), 1.0);
}

}  // namespace xpurun::report
