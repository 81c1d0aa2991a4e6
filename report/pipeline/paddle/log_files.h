// The logs of a job of Paddle: workerlog.N in a directory, or in its folders machineK.
#pragma once

#include "common/base/result.h"
#include "report/pipeline/jobs/jobs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

struct PaddleLogs {
  std::vector<RankJobs> ranks;  // by machine, then by log; hosts are named "machine 1"
  int64_t first_step = 0;
  std::vector<base::Error> problems;
  bool found = false;  // there is a log, whether it holds jobs or not
};

bool holds_paddle_logs(const std::string& directory);
// Several directories are several machines, in this order.
PaddleLogs read_paddle_logs(const std::vector<std::string>& directories);

}  // namespace xpurun::report
