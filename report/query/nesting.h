// Nesting: which span of Python is directly inside of which. Spans of one thread nest by time; those that are
// inferred (forward, evaluation) lie across the others and are left out, as are marks.
#pragma once

#include "report/events/activity.h"

#include <cstdint>
#include <vector>

namespace xpurun::report {

class Nesting {
 public:
  // The slices are in order (put_in_order).
  explicit Nesting(const Activity& activity);

  // `slice`: index of the activity's slices.
  bool has_parent(size_t slice) const { return parents_[slice] != kNone; }
  size_t parent(size_t slice) const { return parents_[slice]; }
  // Its time outside of the spans directly inside of it.
  int64_t self_ns(size_t slice) const { return self_ns_[slice]; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> parents_;
  std::vector<int64_t> self_ns_;
};

}  // namespace xpurun::report
