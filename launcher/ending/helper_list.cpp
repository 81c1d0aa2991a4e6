#include "launcher/ending/helper_list.h"

#include <algorithm>

namespace xpurun::launcher {

bool HelperList::may_be_helper(base::Pid pid) const {
  return std::any_of(owners_.begin(), owners_.end(), [&](const Owner& o) { return o.may_own(pid); });
}

bool HelperList::helper_ended(base::Pid pid, base::WaitStatus status) const {
  return std::any_of(owners_.begin(), owners_.end(), [&](const Owner& o) { return o.reaped(pid, status); });
}

}  // namespace xpurun::launcher
