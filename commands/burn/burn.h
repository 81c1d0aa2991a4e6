// `xpurun doctor --burn`: works on the GPUs of this host before a job does.
#pragma once

#include "common/base/tr.h"

#include <string>

namespace xpurun::launcher {

struct BurnRequest {
  double seconds = 60;
  std::string python;
  bool json = false;
};

// Prints the result. The exit status: 0 if no GPU is faulty or slower than the others.
int burn_command(const BurnRequest& request);

}  // namespace xpurun::launcher
