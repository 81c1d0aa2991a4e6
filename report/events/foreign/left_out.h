// LeftOut: the events of a foreign file that no slice can be made of. All are counted, the first ones are
// named.
#pragma once

#include "report/events/activity.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

class LeftOut {
 public:
  // `name`: of the event, or its text; may hold anything.
  void add(std::string_view name);
  bool empty() const { return count_ == 0; }

  // Says in the activity what is missing of the file. `whole`: its end is there.
  void note(Activity& activity, bool whole = true) const;

 private:
  size_t count_ = 0;
  std::vector<std::string> names_;
};

}  // namespace xpurun::report
