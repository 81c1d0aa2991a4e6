// Series of the durations of operations, for comparisons. Plain data.
#pragma once

#include "report/operations/operation_key.h"

#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

struct OperationSamples {
  OperationKind kind = OperationKind::matmul;
  bool transfer = false;       // of a collective: from the last arrival to the last end
  std::string name;            // equal in another run for the same operation
  std::vector<double> blocks;  // seconds: means over the ranks of the medians of blocks of calls
  int64_t count = 0;           // of timed calls
  double of_a_rank_s = 0;      // mean over the ranks: time of all calls
  std::vector<std::pair<base::Rank, double>> ranks;  // medians, seconds, by rank
};

}  // namespace xpurun::report
