// The CUPTI metrics that measure how much of a GPU's resources is used, and the choice among them. Pure.
#pragma once

#include "common/wire/capture.h"

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload::cupti {

inline constexpr size_t kMetricsOfResource = 2;
inline constexpr size_t kMostMetrics = wire::kResources * kMetricsOfResource;

// Metrics whose sum is the resource.
struct MetricCandidate {
  wire::Resource resource;
  const char* names[kMetricsOfResource];  // the second may be nullptr
};

struct ChosenMetrics {
  const char* names[kMostMetrics] = {};  // as CUPTI wants them
  wire::Resource resources[kMostMetrics] = {};
  size_t count = 0;
  uint32_t mask = 0;  // one bit for each resource
};

// Whether the chip gives all these metrics in one pass.
using AcceptsMetrics = bool (*)(void* context, const char** names, size_t count);

// The first candidate of each resource that the chip gives together with those chosen before it.
ChosenMetrics choose_metrics(AcceptsMetrics accepts, void* context);

// CUPTI's value of a metric of the resource in the resource's unit: per cent become shares.
double in_unit(wire::Resource resource, double value);

// What CUPTI's result means for sampling.
wire::SamplingProblem problem_of(int result);

// The metrics of `resource`, joined by " + ". At most `room` bytes, with the ending 0.
void metrics_text(const ChosenMetrics& chosen, wire::Resource resource, char* out, size_t room);

}  // namespace xpurun::preload::cupti
