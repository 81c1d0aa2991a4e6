// Means and spreads of a GPU's hardware counters: over a capture, and while one kernel was running. Pure.
#pragma once

#include "common/model/resources/resource_file.h"
#include "common/model/speed/gpu_capture.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace xpurun::report {

// Weighted sums of samples; the weights are seconds.
class ResourceSums {
 public:
  // `sampled`: the resources that the file has.
  void add(const model::ResourceSample& sample, const std::vector<wire::Resource>& sampled, double seconds);
  void add(const ResourceSums& other);

  double seconds() const { return seconds_; }
  // In the order of Resource.
  std::vector<model::ResourceUse> uses() const;

 private:
  struct Sum {
    double weight = 0;
    double values = 0;
    double squares = 0;
  };
  double seconds_ = 0;
  std::array<Sum, wire::kResources> sums_;
};

// Samples while something was running. A sample is the mean of its interval, with all that ran in it. So only
// those samples count that the work has filled, if there are some; else all that it touched, by the time that
// it was running in each.
class RunningSums {
 public:
  // `sample_s`: length of the sample; `running_s`: the part in which the work was running.
  void add(const model::ResourceSample& sample, const std::vector<wire::Resource>& sampled, double sample_s,
           double running_s);
  void add(const RunningSums& other);

  std::vector<model::ResourceUse> uses() const;
  // Part of the time of the samples that count in which the work was running.
  double filled() const;

 private:
  bool counts_full() const;

  ResourceSums full_;
  uint64_t full_samples_ = 0;
  ResourceSums all_;
  double touched_s_ = 0;  // length of all samples that the work touched, by the time that it was running
};

// Sorted, without overlap; CLOCK_MONOTONIC, ns.
using TimeParts = std::vector<std::pair<int64_t, int64_t>>;

// The parts must be sorted by begin; overlaps are joined.
RunningSums sums_while(const model::ResourceFile& file, TimeParts parts);
// Over [from, until).
ResourceSums sums_between(const model::ResourceFile& file, int64_t from, int64_t until);

// The resource that limits such work, as far as counters tell: NVLink for NCCL's kernels, or PCIe without
// NVLink; PCIe for copies from and to the host; DRAM for other memory operations; for kernels the fuller one
// of the tensor pipes and DRAM, if a tenth of its peak is used, else the multiprocessors. Empty without
// samples.
std::string_view fitting_resource(model::WorkKind kind, std::string_view name,
                                  const std::vector<model::ResourceUse>& uses);
const model::ResourceUse* find_use(const std::vector<model::ResourceUse>& uses, std::string_view resource);

}  // namespace xpurun::report
