#include "report/speed/ranks/job_steps.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace xpurun::report {

namespace {

constexpr size_t kProbes = 32;
constexpr double kMostDrift = 1;    // steps
constexpr double kLongAside = 0.1;  // of a step

std::vector<double> durations(const RankSteps& rank) {
  std::vector<double> out;
  out.reserve(rank.steps.size());
  for (const StepRecord& step : rank.steps) {
    out.push_back(static_cast<double>(step.duration_ns));
  }
  return out;
}

}  // namespace

int64_t aside_ns(const StepRecord& step) {
  return step.stage_ns[static_cast<size_t>(model::Stage::checkpoint)] +
         step.stage_ns[static_cast<size_t>(model::Stage::evaluation)];
}

int64_t working_ns(const StepRecord& step) {
  return std::max<int64_t>(step.duration_ns - aside_ns(step), 0);
}

double working_seconds(const StepRecord& step) {
  return static_cast<double>(working_ns(step)) * 1e-9;
}

JobSteps::JobSteps(std::vector<RankSteps> ranks) : ranks_(std::move(ranks)) {
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankSteps& a, const RankSteps& b) { return a.rank < b.rank; });
  align();
}

void JobSteps::align() {
  shifts_.assign(ranks_.size(), 0);
  if (ranks_.empty()) {
    return;
  }
  const auto longest = std::max_element(
      ranks_.begin(), ranks_.end(),
      [](const RankSteps& a, const RankSteps& b) { return a.steps.size() < b.steps.size(); });
  const std::vector<StepRecord>& reference = longest->steps;
  std::vector<int64_t> offsets(ranks_.size(), 0);
  int64_t least = 0;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    const std::vector<StepRecord>& steps = ranks_[r].steps;
    std::vector<double> votes;
    for (size_t k = 0; k < std::min(kProbes, steps.size()); ++k) {
      const size_t i = k * steps.size() / std::min(kProbes, steps.size());
      const int64_t time = steps[i].begin_ns;
      const auto after = std::lower_bound(reference.begin(), reference.end(), time,
                                          [](const StepRecord& s, int64_t t) { return s.begin_ns < t; });
      auto nearest = after == reference.end() ? after - 1 : after;
      if (nearest != reference.begin() &&
          time - (nearest - 1)->begin_ns < std::abs(nearest->begin_ns - time)) {
        --nearest;
      }
      votes.push_back(static_cast<double>(nearest - reference.begin()) - static_cast<double>(i));
    }
    offsets[r] = std::llround(median(votes));
    // Ranks of one step that began far apart: the numbers are all there is.
    least = steps.empty() ? least : std::min(least, offsets[r]);
  }
  for (size_t r = 0; r < ranks_.size(); ++r) {
    shifts_[r] = static_cast<size_t>(offsets[r] - least);
    steps_ = std::max(steps_, ranks_[r].steps.empty() ? 0 : shifts_[r] + ranks_[r].steps.size());
  }
  compare_pace(static_cast<size_t>(longest - ranks_.begin()));
}

// Compares how far each rank is ahead of the reference at the beginning and at the end.
void JobSteps::compare_pace(size_t reference) {
  const double step_ns = median(durations(ranks_[reference]));
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::vector<double> ahead;
    for (size_t i = 0; i < steps_; ++i) {
      const StepRecord* own = at(r, i);
      const StepRecord* other = at(reference, i);
      if (own != nullptr && other != nullptr) {
        ahead.push_back(static_cast<double>(other->begin_ns - own->begin_ns));
      }
    }
    const size_t part = ahead.size() / 4;
    if (part == 0) {
      continue;
    }
    const auto quarter = static_cast<std::ptrdiff_t>(part);
    const double drift =
        median({ahead.end() - quarter, ahead.end()}) - median({ahead.begin(), ahead.begin() + quarter});
    // A rank that uses a GPU may be a step ahead on its host, although the GPUs wait for each other.
    const bool meet = ranks_[r].meets && ranks_[reference].meets;
    synchronous_ = synchronous_ && (meet || std::abs(drift) <= kMostDrift * step_ns);
  }
}

const StepRecord* JobSteps::at(size_t rank, size_t step) const {
  const std::vector<StepRecord>& steps = ranks_[rank].steps;
  const size_t index = step - shifts_[rank];  // wraps to a large number before the first one
  return index < steps.size() ? &steps[index] : nullptr;
}

StepRecord* JobSteps::at(size_t rank, size_t step) {
  return const_cast<StepRecord*>(std::as_const(*this).at(rank, step));
}

std::vector<size_t> JobSteps::usual_steps() const {
  const bool gaps =
      std::any_of(ranks_.begin(), ranks_.end(), [](const RankSteps& r) { return !r.holes.empty(); });
  std::vector<size_t> out;
  for (size_t i = 0; i < steps_; ++i) {
    bool looked_at = gaps;
    for (size_t r = 0; r < ranks_.size() && looked_at; ++r) {
      const StepRecord* step = at(r, i);
      looked_at = step == nullptr || step->waits_known;
    }
    if (!looked_at) {
      out.push_back(i);
    }
  }
  if (2 * out.size() < steps_) {
    out.resize(steps_);
    std::iota(out.begin(), out.end(), size_t{0});
  }
  return out;
}

std::vector<double> JobSteps::step_seconds() const {
  std::vector<double> out;
  out.reserve(steps_);
  std::vector<double> one;
  for (size_t i = 0; i < steps_; ++i) {
    one.clear();
    const StepRecord* paused = nullptr;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (const StepRecord* step = at(r, i)) {
        one.push_back(working_seconds(*step));
        paused = paused == nullptr || aside_ns(*step) > aside_ns(*paused) ? step : paused;
      }
    }
    // The others may wait for a rank that writes a checkpoint; that rank shows how long the step itself is.
    const bool waits =
        synchronous_ && paused != nullptr &&
        static_cast<double>(aside_ns(*paused)) >= kLongAside * static_cast<double>(paused->duration_ns);
    out.push_back(waits ? working_seconds(*paused) : quantile(one, 0.5));
  }
  return out;
}

}  // namespace xpurun::report
