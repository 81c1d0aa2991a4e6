#include "common/model/evidence/host_use.h"

#include <algorithm>
#include <cmath>

namespace xpurun::model {

namespace {

constexpr size_t kMostBins = 180;
constexpr size_t kMostTracks = 64;
constexpr double kNothing = -1;

double mean_of(double a, double b) {
  return a < 0 ? b : b < 0 ? a : (a + b) / 2;
}

// Without digits that nobody reads.
double rounded(HostUse use, double value) {
  constexpr double kParts = 1e4;
  return is_share_of_host(use) ? std::round(value * kParts) / kParts : std::round(value);
}

void halve(std::vector<double>& values) {
  const size_t half = (values.size() + 1) / 2;
  for (size_t i = 0; i < half; ++i) {
    const double second = 2 * i + 1 < values.size() ? values[2 * i + 1] : kNothing;
    values[i] = mean_of(values[2 * i], second);
  }
  values.resize(half);
}

}  // namespace

size_t HostUseHistory::bins() const {
  size_t out = 0;
  for (const UseTrack& track : tracks) {
    out = std::max(out, track.values.size());
  }
  return out;
}

void HostUseHistory::add(const std::vector<UseValue>& values, int64_t wall_ns) {
  if (values.empty()) {
    return;
  }
  begin_wall_ns = begin_wall_ns == 0 ? wall_ns : begin_wall_ns;
  const double at_s = (static_cast<double>(wall_ns) - static_cast<double>(begin_wall_ns)) / 1e9;
  if (at_s < 0) {
    return;  // the clock was set back
  }
  while (at_s / bin_s >= static_cast<double>(kMostBins)) {
    for (UseTrack& track : tracks) {
      halve(track.values);
    }
    bin_s *= 2;
  }
  const auto bin = static_cast<size_t>(at_s / bin_s);
  for (const UseValue& v : values) {
    auto it = std::find_if(tracks.begin(), tracks.end(),
                           [&](const UseTrack& t) { return t.use == v.use && t.object == v.object; });
    if (it == tracks.end()) {
      if (tracks.size() == kMostTracks) {
        continue;
      }
      it = tracks.insert(tracks.end(), UseTrack{.use = v.use, .object = v.object, .values = {}});
    }
    it->values.resize(std::max(it->values.size(), bin + 1), kNothing);
    it->values[bin] = rounded(v.use, mean_of(it->values[bin], v.value));
  }
}

void HostUseHistory::join(const HostUseHistory& other) {
  if (other.empty() || !(other.bin_s > 0) || !(bin_s > 0)) {
    return;
  }
  if (empty()) {
    *this = other;
    return;
  }
  const double begin_s =
      (static_cast<double>(other.begin_wall_ns) - static_cast<double>(begin_wall_ns)) / 1e9;
  for (const UseTrack& track : other.tracks) {
    UseTrack& mine = tracks.emplace_back(UseTrack{.use = track.use, .object = track.object, .values = {}});
    std::vector<double> sums;
    std::vector<double> weights;
    for (size_t i = 0; i < track.values.size(); ++i) {
      const double from = std::max(begin_s + static_cast<double>(i) * other.bin_s, 0.0) / bin_s;
      const double to = (begin_s + static_cast<double>(i + 1) * other.bin_s) / bin_s;
      // Twice the bins that a history may have: what lies beyond is damaged.
      if (track.values[i] < 0 || !(to <= 2.0 * kMostBins)) {
        continue;
      }
      for (auto bin = static_cast<size_t>(from); static_cast<double>(bin) < to; ++bin) {
        const double part =
            std::min(to, static_cast<double>(bin + 1)) - std::max(from, static_cast<double>(bin));
        sums.resize(std::max(sums.size(), bin + 1));
        weights.resize(sums.size());
        sums[bin] += part * track.values[i];
        weights[bin] += part;
      }
    }
    for (size_t bin = 0; bin < sums.size(); ++bin) {
      mine.values.push_back(weights[bin] > 0 ? rounded(mine.use, sums[bin] / weights[bin]) : kNothing);
    }
  }
}

}  // namespace xpurun::model
