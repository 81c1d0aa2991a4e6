// Descendant: a process below a rank, as recorded in the process table. Plain data.
#pragma once

#include "common/base/ids.h"

#include <string>

namespace xpurun::launcher {

struct Descendant {
  base::Pid pid = 0;
  base::Pid parent = 0;
  bool python = false;
  bool forked = false;  // by multiprocessing or fork(): runs the rank's own program
  std::string name;
};

}  // namespace xpurun::launcher
