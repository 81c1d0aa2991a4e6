// Series of the durations of operations, for comparisons. Plain data.
#pragma once

#include "report/operations/operation_key.h"

#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

// What is measured of the calls of an operation.
enum class SampleMeasure : uint8_t {
  duration,
  transfer,  // of a collective: from the last arrival to the last end
  skew,      // of a collective: from the first arrival to the last one
};

struct OperationSamples {
  OperationKind kind = OperationKind::matmul;
  SampleMeasure measure = SampleMeasure::duration;
  std::string name;            // equal in another run for the same operation
  std::vector<double> blocks;  // seconds: means over the ranks of the medians of blocks of calls
  int64_t count = 0;           // of timed calls
  double work = 0;             // of a call: FLOP of a matmul; 0: unknown
  double of_a_rank_s = 0;      // mean over the ranks: time of all calls
  std::vector<std::pair<base::Rank, double>> ranks;  // medians, seconds, by rank; skew: means of
                                                     // the rank's begin minus the first begin
};

}  // namespace xpurun::report
