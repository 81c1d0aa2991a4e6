#include "launcher/spans/memory_growth.h"

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostKept = 256;
constexpr size_t kFewestSamples = 24;
constexpr size_t kWindows = 12;
constexpr size_t kFewestRising = 8;  // successive windows, so that chance needs 1 in 40,000
constexpr int64_t kLeastBytes = int64_t{64} << 20;
constexpr double kLeastShare = 0.05;  // of the memory at the begin of the growth
// The last windows must grow at this share of the mean: caches fill and then stop to grow.
constexpr double kStillGrowing = 1.0 / 3;
constexpr size_t kLastWindows = 3;

const MemoryUse& lower(const MemoryUse& a, const MemoryUse& b) {
  return b.bytes() < a.bytes() ? b : a;
}

// The lowest of each window of equal time; nothing if a window has no sample.
std::optional<std::array<MemoryUse, kWindows>> lowest(std::span<const MemoryUse> uses) {
  const auto begin = static_cast<double>(uses.front().at_ns);
  const double length = (static_cast<double>(uses.back().at_ns) - begin) / kWindows;
  std::array<MemoryUse, kWindows> out{};
  std::array<bool, kWindows> known{};
  for (const MemoryUse& use : uses) {
    const double place = length > 0 ? (static_cast<double>(use.at_ns) - begin) / length : 0;
    const size_t i = std::min(static_cast<size_t>(place), kWindows - 1);
    out[i] = known[i] ? lower(out[i], use) : use;
    known[i] = true;
  }
  if (!std::all_of(known.begin(), known.end(), [](bool k) { return k; })) {
    return std::nullopt;
  }
  return out;
}

std::optional<MemorySeries::Growth> growth_in(std::span<const MemoryUse> uses) {
  const auto windows = uses.size() < kFewestSamples ? std::nullopt : lowest(uses);
  if (!windows) {
    return std::nullopt;
  }
  size_t first = kWindows - 1;
  while (first > 0 && (*windows)[first - 1].bytes() < (*windows)[first].bytes()) {
    --first;
  }
  const MemorySeries::Growth found{.from = (*windows)[first], .to = windows->back()};
  const size_t rising = kWindows - 1 - first;
  const auto least = static_cast<double>(found.from.bytes()) * kLeastShare;
  if (rising < kFewestRising || found.bytes() < kLeastBytes || static_cast<double>(found.bytes()) < least) {
    return std::nullopt;
  }
  const auto mean = static_cast<double>(found.bytes()) / static_cast<double>(rising);
  const int64_t last = windows->back().bytes() - (*windows)[kWindows - 1 - kLastWindows].bytes();
  return static_cast<double>(last) / kLastWindows < kStillGrowing * mean ? std::nullopt
                                                                         : std::optional(found);
}

}  // namespace

double MemorySeries::Growth::bytes_per_s() const {
  const double seconds = base::ns_to_s(to.at_ns - from.at_ns);
  return seconds > 0 ? static_cast<double>(bytes()) / seconds : 0;
}

void MemorySeries::add(const MemoryUse& use) {
  lowest_ = pending_ == 0 ? use : lower(lowest_, use);
  if (++pending_ < together_) {
    return;
  }
  pending_ = 0;
  kept_.push_back(lowest_);
  if (kept_.size() == kMostKept) {
    halve();
  }
}

void MemorySeries::halve() {
  for (size_t i = 0; i < kMostKept / 2; ++i) {
    kept_[i] = lower(kept_[2 * i], kept_[2 * i + 1]);
  }
  kept_.resize(kMostKept / 2);
  together_ *= 2;
}

// A growth that began late in a long run shows in the later part alone.
std::optional<MemorySeries::Growth> MemorySeries::growth() const {
  for (size_t part = 1; part <= 4; part *= 2) {
    const std::span<const MemoryUse> all(kept_);
    if (const auto found = growth_in(all.last(all.size() / part))) {
      return found;
    }
  }
  return std::nullopt;
}

double seconds_to_limit(int64_t used_bytes, int64_t limit_bytes, double bytes_per_s) {
  return limit_bytes <= 0 || !(bytes_per_s > 0)
             ? -1
             : static_cast<double>(std::max<int64_t>(limit_bytes - used_bytes, 0)) / bytes_per_s;
}

}  // namespace xpurun::launcher
