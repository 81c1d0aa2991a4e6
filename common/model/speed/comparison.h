// Comparison: what differs in speed between two runs, or between two groups of ranks of one run. The output
// of `xpurun diff --format json`, schema "xpurun.comparison/1". Times are seconds.
#pragma once

#include "common/model/names.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kComparisonSchema = "xpurun.comparison/1";

enum class MetricKind {
  step,        // duration of a step
  own,         // part of a step in which a rank did not wait for others
  stage,       // of a step
  matmul,      // duration of one call; so are the following metrics
  collective,  // of a rank's own call, with waiting for others
  transfer,    // from the last rank's arrival at a collective to the last end
  skew,        // from the first rank's arrival at a collective to the last one
  memory,
  program_call,  // of torch.distributed
  kernel,        // also a CUDA graph
  delay,         // from the call of a matmul to its start on the GPU
};
template <>
inline constexpr std::array<std::string_view, 11> kNames<MetricKind> = {
    "step", "own",    "stage",        "matmul", "collective", "transfer",
    "skew", "memory", "program_call", "kernel", "delay"};

enum class Judgement {
  same,     // within the noise
  slower,   // B is
  faster,   // B is
  unclear,  // too few values to decide
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<Judgement> = {"same", "slower", "faster", "unclear"};

struct ComparedMetric {
  MetricKind kind = MetricKind::step;
  std::string name;  // "forward", "1000x1000x1000 bf16 TN"; empty for step and own
  double a_s = 0;    // median of the blocks
  double b_s = 0;
  // Least value, quartiles and largest value of the blocks; empty: there are none.
  std::vector<double> a_spread_s;
  std::vector<double> b_spread_s;
  double a_tflops = -1;  // of a matmul, at the medians
  double b_tflops = -1;
  int64_t a_count = 0;  // of steps or timed calls
  int64_t b_count = 0;
  double effect = 0;       // b_s / a_s - 1
  double superiority = 0;  // probability that a block of B is longer than one of A; ties count half
  double p = 1;            // Mann-Whitney, two-sided
  double q = 1;            // after the correction for the number of metrics
  double step_share = 0;   // of a step of A: what the difference adds; 0: unknown
  std::string ranks;       // where it differs: "all ranks", "3"; empty: not distinguished
  Judgement judgement = Judgement::unclear;
};

struct ComparedSide {
  std::string name;   // directory, as the user typed it
  std::string ranks;  // "0-3"
  int64_t steps = 0;
  double step_s = 0;  // median
  bool gpu = false;
  std::string finding;  // which ranks are slow in it, and why; empty: nothing is found
  std::string note;     // "the run itself is 23 % slower since step 4,120"; empty: none
};

struct Comparison {
  ComparedSide a;
  ComparedSide b;
  std::string sentence;                 // the verdict
  double least_effect = 0;              // smaller differences are not reported
  double most_q = 0;                    // less certain differences are not reported either
  std::vector<ComparedMetric> metrics;  // those that differ first, most important first
  std::vector<std::string> only_a;      // matmuls, collectives and so on that B does not have
  std::vector<std::string> only_b;
};

nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace xpurun::model
