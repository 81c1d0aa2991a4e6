#include "launcher/capture/resource_writer.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace xpurun::launcher {

using model::SamplingStatus;
using wire::SamplingProblem;

namespace {

// By SamplingStep.
constexpr std::array<std::string_view, 13> kSamplingSteps = {"",
                                                             "cuptiProfilerInitialize",
                                                             "cuptiDeviceGetChipName",
                                                             "cuptiPmSamplingGetCounterAvailability",
                                                             "cuptiProfilerHostInitialize",
                                                             "cuptiProfilerHostConfigAddMetrics",
                                                             "cuptiProfilerHostGetConfigImage",
                                                             "cuptiPmSamplingEnable",
                                                             "cuptiPmSamplingSetConfig",
                                                             "cuptiPmSamplingCounterDataImageInitialize",
                                                             "cuptiPmSamplingStart",
                                                             "cuptiPmSamplingDecodeData",
                                                             "cuptiProfilerHostEvaluateToGpuValues"};
static_assert(kSamplingSteps.size() == static_cast<size_t>(wire::SamplingStep::evaluate) + 1);

SamplingStatus status_of(SamplingProblem problem) {
  switch (problem) {
    case SamplingProblem::none:
      return SamplingStatus::complete;
    case SamplingProblem::off:
      return SamplingStatus::off;
    case SamplingProblem::no_functions:
      return SamplingStatus::no_functions;
    case SamplingProblem::no_permission:
      return SamplingStatus::no_permission;
    case SamplingProblem::busy:
      return SamplingStatus::busy;
    case SamplingProblem::not_supported:
      return SamplingStatus::not_supported;
    case SamplingProblem::no_metrics:
      return SamplingStatus::no_metrics;
    case SamplingProblem::refused:
      return SamplingStatus::refused;
    default:
      return SamplingStatus::failed;
  }
}

std::string reason_of(const wire::SamplingHeader& header, SamplingProblem problem) {
  const uint32_t step = header.step.load();
  if (step > 0 && step < kSamplingSteps.size()) {
    return fmt::format("CUPTI error {} of {}", header.error.load(), kSamplingSteps[step]);
  }
  switch (problem) {
    case SamplingProblem::no_memory:
      return "no memory";
    case SamplingProblem::clock:
      return "another CUPTI client changed CUPTI's clock, so the times of the samples are unknown";
    default:
      return "";
  }
}

double seconds_from(const std::atomic<uint64_t>& ns) {
  return base::ns_to_s(static_cast<int64_t>(std::min<uint64_t>(ns.load(), uint64_t{1} << 62)));
}

}  // namespace

model::ResourceSampling sampling_of(const ActivityMemory& memory) {
  const wire::SamplingHeader& h = memory.header().sampling;
  const auto problem = static_cast<SamplingProblem>(h.problem.load());
  model::ResourceSampling out{.status = status_of(problem),
                              .reason = reason_of(h, problem),
                              .asked_s = seconds_from(h.asked_ns),
                              .lost = h.lost.load(),
                              .overflows = h.overflows.load(),
                              .setup_s = seconds_from(h.setup_ns),
                              .handling_s = seconds_from(h.handling_ns),
                              .stop_s = seconds_from(h.stop_ns)};
  if (problem == SamplingProblem::none && h.asked_ns.load() == 0) {
    out.status = SamplingStatus::none;  // the capture failed before, or the rank died
  } else if (problem == SamplingProblem::none && out.overflows > 0) {
    out.status = SamplingStatus::overflow;
  }
  for (uint32_t i = 0; i < wire::kResources; ++i) {
    const auto resource = static_cast<wire::Resource>(i);
    if (memory.has_resource(resource)) {
      out.resources.push_back({.resource = resource, .metric = memory.metric(resource)});
    }
  }
  return out;
}

ResourceWriter::ResourceWriter(Storage& storage, const std::string& directory, const std::string& name,
                               const model::EventFileHeader& header)
    : name_(name), file_(storage, directory, name, model::ResourceEncoder::header(header)) {}

void ResourceWriter::take(ActivityMemory& memory, size_t most) {
  // A sample has one value for each resource that was defined before it.
  if (samples_ == 0) {
    for (uint32_t i = 0; i < wire::kResources; ++i) {
      const auto resource = static_cast<wire::Resource>(i);
      if (memory.has_resource(resource)) {
        encoder_.define(resource, memory.metric(resource));
      }
    }
  }
  for (const wire::ResourceSample& shared : memory.take_samples(most)) {
    const wire::ResourceSample sample = shared;  // the rank may change it
    encoder_.add(sample);
    first_begin_ = samples_ == 0 ? sample.begin_ns : first_begin_;
    last_end_ = sample.begin_ns + sample.duration_ns;
    total_ns_ += sample.duration_ns;
    ++samples_;
  }
  if (encoder_.pending() > 0) {
    file_.append(encoder_.take_block());
  }
}

model::ResourceSampling ResourceWriter::result(const ActivityMemory& memory) const {
  model::ResourceSampling out = sampling_of(memory);
  out.samples = samples_;
  out.begin_mono_ns = static_cast<int64_t>(first_begin_);
  out.seconds = last_end_ > first_begin_ ? base::ns_to_s(static_cast<int64_t>(last_end_ - first_begin_)) : 0;
  out.interval_s =
      samples_ > 0 ? base::ns_to_s(static_cast<int64_t>(total_ns_)) / static_cast<double>(samples_) : 0;
  // Samples at unknown times are of no use.
  const auto problem = static_cast<SamplingProblem>(memory.header().sampling.problem.load());
  out.file = problem == SamplingProblem::clock ? "" : name_;
  if (!file_.status()) {
    out.status = SamplingStatus::failed;
    out.reason = base::to_line(file_.status().error());
  }
  return out;
}

}  // namespace xpurun::launcher
