// "What has become slower?": two runs, or two groups of ranks, side by side. Pure.
//
// Every metric that both sides have is tested with the medians of up to 32 blocks of consecutive steps or
// calls (metric_test.h). A difference is reported if its false discovery rate is at most kMostQ over all
// metrics, and if it is large enough: on a machine that is shared with others, steps of equal programs differ
// more than between GPUs.
#pragma once

#include "report/compare/run_samples.h"

namespace xpurun::report {

inline constexpr double kMostQ = 0.01;
inline constexpr double kLeastEffectOnGpus = 0.03;
inline constexpr double kLeastEffectOnCpus = 0.10;  // if a side has no GPU
inline constexpr double kLeastOfStep = 0.01;        // a stage must change by this share of a step

model::Comparison compare(const RunSamples& a, const RunSamples& b);

}  // namespace xpurun::report
