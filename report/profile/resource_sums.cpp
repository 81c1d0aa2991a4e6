#include "report/profile/resource_sums.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

using model::ResourceSample;
using model::ResourceUse;
using wire::Resource;

namespace {

constexpr double kFull = 0.95;         // of a sample
constexpr uint64_t kLeastFull = 5;     // samples
constexpr double kLeastUse = 0.1;      // of the peak
constexpr double kLeastTraffic = 1e6;  // bytes a second

std::vector<Resource> sampled_in(const model::ResourceFile& file) {
  std::vector<Resource> out;
  for (const auto& [resource, metrics] : file.metrics) {
    out.push_back(resource);
  }
  return out;
}

void join_overlaps(TimeParts& parts) {
  TimeParts out;
  for (const auto& part : parts) {
    if (!out.empty() && part.first <= out.back().second) {
      out.back().second = std::max(out.back().second, part.second);
    } else {
      out.push_back(part);
    }
  }
  parts = std::move(out);
}

double mean_use(const std::vector<ResourceUse>& uses, std::string_view resource) {
  const ResourceUse* use = find_use(uses, resource);
  return use == nullptr ? -1 : use->mean;
}

}  // namespace

void ResourceSums::add(const ResourceSample& sample, const std::vector<Resource>& sampled, double seconds) {
  seconds_ += seconds;
  for (const Resource resource : sampled) {
    Sum& sum = sums_[static_cast<size_t>(resource)];
    const double value = sample.values[static_cast<size_t>(resource)];
    sum.weight += seconds;
    sum.values += seconds * value;
    sum.squares += seconds * value * value;
  }
}

void ResourceSums::add(const ResourceSums& other) {
  seconds_ += other.seconds_;
  for (size_t i = 0; i < sums_.size(); ++i) {
    sums_[i].weight += other.sums_[i].weight;
    sums_[i].values += other.sums_[i].values;
    sums_[i].squares += other.sums_[i].squares;
  }
}

std::vector<ResourceUse> ResourceSums::uses() const {
  std::vector<ResourceUse> out;
  for (size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    if (sum.weight > 0) {
      const double mean = sum.values / sum.weight;
      const double variance = sum.squares / sum.weight - mean * mean;
      // Less comes from rounding.
      const double spread = variance > 1e-12 * mean * mean ? std::sqrt(variance) : 0;
      out.push_back({.resource = static_cast<Resource>(i), .mean = mean, .spread = spread});
    }
  }
  return out;
}

void RunningSums::add(const ResourceSample& sample, const std::vector<Resource>& sampled, double sample_s,
                      double running_s) {
  all_.add(sample, sampled, running_s);
  touched_s_ += running_s * (running_s / sample_s);
  if (running_s >= kFull * sample_s) {
    full_.add(sample, sampled, running_s);
    ++full_samples_;
  }
}

void RunningSums::add(const RunningSums& other) {
  full_.add(other.full_);
  full_samples_ += other.full_samples_;
  all_.add(other.all_);
  touched_s_ += other.touched_s_;
}

bool RunningSums::counts_full() const {
  return full_samples_ >= kLeastFull;
}

std::vector<ResourceUse> RunningSums::uses() const {
  return counts_full() ? full_.uses() : all_.uses();
}

double RunningSums::filled() const {
  return counts_full() ? 1 : all_.seconds() > 0 ? touched_s_ / all_.seconds() : 0;
}

RunningSums sums_while(const model::ResourceFile& file, TimeParts parts) {
  RunningSums out;
  join_overlaps(parts);
  const std::vector<Resource> sampled = sampled_in(file);
  size_t first = 0;  // the first part that may reach into the sample
  for (const ResourceSample& sample : file.samples) {
    const int64_t end = sample.begin_ns + sample.duration_ns;
    while (first < parts.size() && parts[first].second <= sample.begin_ns) {
      ++first;
    }
    if (first == parts.size()) {
      break;
    }
    int64_t running = 0;
    for (size_t i = first; i < parts.size() && parts[i].first < end; ++i) {
      running += std::min(end, parts[i].second) - std::max(sample.begin_ns, parts[i].first);
    }
    if (running > 0) {
      out.add(sample, sampled, base::ns_to_s(sample.duration_ns), base::ns_to_s(running));
    }
  }
  return out;
}

ResourceSums sums_between(const model::ResourceFile& file, int64_t from, int64_t until) {
  ResourceSums out;
  const std::vector<Resource> sampled = sampled_in(file);
  for (const ResourceSample& sample : file.samples) {
    const int64_t begin = std::max(from, sample.begin_ns);
    const int64_t end = std::min(until, sample.begin_ns + sample.duration_ns);
    if (end > begin) {
      out.add(sample, sampled, base::ns_to_s(end - begin));
    }
  }
  return out;
}

const ResourceUse* find_use(const std::vector<ResourceUse>& uses, std::string_view resource) {
  const auto found = std::find_if(
      uses.begin(), uses.end(), [&](const ResourceUse& u) { return model::name_of(u.resource) == resource; });
  return found == uses.end() ? nullptr : &*found;
}

std::string_view fitting_resource(model::WorkKind kind, std::string_view name,
                                  const std::vector<ResourceUse>& uses) {
  const auto first_of = [&](std::initializer_list<std::string_view> names) -> std::string_view {
    for (const std::string_view one : names) {
      if (find_use(uses, one) != nullptr) {
        return one;
      }
    }
    return {};
  };
  switch (kind) {
    case model::WorkKind::kernel: {
      const double tensor = mean_use(uses, "tensor");
      const double dram = mean_use(uses, "dram");
      return std::max(tensor, dram) >= kLeastUse ? (tensor >= dram ? "tensor" : "dram")
                                                 : first_of({"sm", "tensor", "dram"});
    }
    case model::WorkKind::collective: {
      const double received = mean_use(uses, "nvlink_rx");
      const double sent = mean_use(uses, "nvlink_tx");
      if (std::max(received, sent) >= kLeastTraffic) {
        return received >= sent ? "nvlink_rx" : "nvlink_tx";
      }
      const bool by_pcie =
          mean_use(uses, "pcie_read") >= kLeastTraffic || mean_use(uses, "pcie_write") >= kLeastTraffic;
      return by_pcie ? first_of({"pcie", "pcie_read", "pcie_write"})
                     : first_of({"nvlink_rx", "nvlink_tx", "pcie", "pcie_read", "dram", "sm"});
    }
    case model::WorkKind::memory: {
      const bool with_host =
          name.find("HtoD") != std::string_view::npos || name.find("DtoH") != std::string_view::npos;
      return with_host ? first_of({"pcie", "pcie_read", "pcie_write", "dram"}) : first_of({"dram", "sm"});
    }
    default:
      return {};  // on the host
  }
}

}  // namespace xpurun::report
