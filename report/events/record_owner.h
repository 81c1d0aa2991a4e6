// Whose file it is, as far as the file says.
#pragma once

#include "common/base/ids.h"

#include <string>

namespace xpurun::report {

struct RecordOwner {
  base::Rank rank = base::kNoRank;
  std::string host;
  base::Pid pid = 0;  // of a process without a rank; ranks that are started again stay one process
};

}  // namespace xpurun::report
