#include "report/speed/primitives/duration_sketch.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

constexpr int kParts = 64;                    // of an octave
constexpr double kLongest = 4398046511104.0;  // 2^42

size_t bucket_of(double ns) {
  int exponent = 0;
  // Buckets are linear within an octave, so a bucket is 0.8 % to 1.6 % of its value wide.
  const double fraction = std::frexp(ns, &exponent);  // in [0.5, 1)
  const auto part = static_cast<size_t>((2 * fraction - 1) * kParts);
  return static_cast<size_t>(exponent - 1) * kParts + part;
}

double begin_of(size_t bucket) {
  const auto part = static_cast<double>(bucket % kParts);
  return std::ldexp(1 + part / kParts, static_cast<int>(bucket / kParts));
}

}  // namespace

void DurationSketch::add(double ns) {
  const double kept = std::clamp(ns, 1.0, kLongest);
  const size_t bucket = bucket_of(kept);
  if (bucket >= buckets_.size()) {
    buckets_.resize(bucket + 1);
  }
  ++buckets_[bucket];
  ++count_;
  total_ns_ += kept;
  shortest_ns_ = std::min(shortest_ns_, kept);
  longest_ns_ = std::max(longest_ns_, kept);
}

void DurationSketch::add(const DurationSketch& other) {
  if (other.buckets_.size() > buckets_.size()) {
    buckets_.resize(other.buckets_.size());
  }
  for (size_t i = 0; i < other.buckets_.size(); ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  total_ns_ += other.total_ns_;
  shortest_ns_ = std::min(shortest_ns_, other.shortest_ns_);
  longest_ns_ = std::max(longest_ns_, other.longest_ns_);
}

double DurationSketch::quantile_s(double q) const {
  if (count_ == 0) {
    return 0;
  }
  // Durations of a bucket are taken to be spread evenly over the bucket.
  const double wanted = q * static_cast<double>(count_ - 1) + 0.5;
  double before = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const auto here = static_cast<double>(buckets_[i]);
    if (before + here > wanted) {
      const double share = (wanted - before) / here;
      const double ns = begin_of(i) + share * (begin_of(i + 1) - begin_of(i));
      return std::clamp(ns, shortest_ns_, longest_ns_) * 1e-9;
    }
    before += here;
  }
  return kLongest * 1e-9;
}

}  // namespace xpurun::report
