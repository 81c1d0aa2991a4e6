// Sentences about comparisons, for people. Pure.
#pragma once

#include "common/model/speed/comparison.h"

#include <string>

namespace xpurun::report {

// "the matmul 1000x1000x1000 bf16 TN", "the forward pass"
std::string metric_words(model::MetricKind kind, const std::string& name);
// "B is 12 % slower, 210 ms a step instead of 188 ms: ...; everything else is within the noise"
std::string comparison_sentence(const model::Comparison& comparison);
// "8.2 us", "210 ms", "1.25 s"
std::string call_time(double seconds);
// "+12 %", "-3.1 %"
std::string signed_percent(double share);

}  // namespace xpurun::report
