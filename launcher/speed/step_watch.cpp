#include "launcher/speed/step_watch.h"

#include "common/base/output/log.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <vector>

namespace xpurun::launcher {

namespace {

using model::Span;
using model::Stage;

constexpr int64_t kSettleNs = 100'000'000;  // until a rank has noticed the end of a trace
constexpr size_t kMostRanks = 4096;
constexpr double kMeanSteps = 16;
constexpr int64_t kShortestNs = 5'000'000;  // of a value; shorter steps are summed up
constexpr uint64_t kMissed = 50;            // steps of each other rank, until one of them is the reference
constexpr uint64_t kWithoutPass = 32;       // calls of optimizers
constexpr double kAsFast = 0.05;            // of the fastest level
constexpr size_t kMostLatest = 256;         // steps to look back
constexpr uint64_t kMostSkipped = 4096;     // steps between two timed collectives

}  // namespace

void StepWatch::add(base::Rank rank, uint64_t process, std::span<const Span> spans) {
  if (broken_ || (ranks_.size() >= kMostRanks && !ranks_.contains(rank))) {
    return;
  }
  try {
    State& state = ranks_[rank];
    if (state.process == 0) {
      state.process = process;
      if (gpu_) {
        state.clock.uses_gpu();
      }
    } else if (state.process != process) {
      state = {.process = process, .clocked = state.clocked, .seen = state.seen};
      if (gpu_) {
        state.clock.uses_gpu();
      }
    }
    if (!spans.empty() && !std::exchange(state.spans, true) && state.anchor.called != 0) {
      state.guessed = true;
      certain_from_now(state);
    }
    for (const Span& span : spans) {
      take(rank, state, span);
    }
    take_clocked(rank, state);
  } catch (const std::exception& e) {
    base::log_warn("the steps are no longer watched: {}", e.what());
    broken_ = true;
  }
}

void StepWatch::gpu_used() {
  gpu_ = true;
  for (auto& [rank, state] : ranks_) {
    state.clock.uses_gpu();
  }
}

void StepWatch::started(base::Rank rank, std::span<const report::GpuStart> starts) {
  auto known = ranks_.find(rank);
  if (broken_ || starts.empty() || (known == ranks_.end() && ranks_.size() >= kMostRanks)) {
    return;
  }
  if (known == ranks_.end()) {
    known = ranks_.emplace(rank, State{}).first;
    known->second.clock.uses_gpu();
  }
  State& state = known->second;
  for (const report::GpuStart& start : starts) {
    state.clock.started(start);
    if (!state.spans && start.first_of_step && start.collective && start.number != 0) {
      take_anchor(rank, state, start);
    }
  }
  if (!state.spans) {
    take_clocked(rank, state);
  }
}

// Of short steps, not every one has a timed collective: the numbers say how many steps lie in between.
void StepWatch::take_anchor(base::Rank rank, State& state, const report::GpuStart& start) {
  Anchor& last = state.anchor;
  if (last.called == 0 || last.kind != start.kind || start.number <= last.number ||
      start.called_ns <= last.called) {
    last = {.kind = start.kind, .number = start.number, .called = start.called_ns};
    state.last_end = start.called_ns;
    return;
  }
  const uint64_t distance = start.number - last.number;
  last.period = last.period == 0 ? distance : std::min(last.period, distance);
  const uint64_t steps = (distance + last.period / 2) / last.period;
  const base::MonoNs took = start.called_ns - last.called;
  if (steps <= kMostSkipped) {
    for (uint64_t i = 1; i <= steps; ++i) {
      end_step(rank, state, last.called + took * static_cast<int64_t>(i) / static_cast<int64_t>(steps));
    }
  } else {
    state.last_end = start.called_ns;  // timing was off meanwhile
  }
  last.number = start.number;
  last.called = start.called_ns;
}

std::vector<base::Rank> StepWatch::ranks() const {
  std::vector<base::Rank> out;
  for (const auto& [rank, state] : ranks_) {
    out.push_back(rank);
  }
  return out;
}

StepWatch::RankSteps StepWatch::rank(base::Rank rank) const {
  const auto known = ranks_.find(rank);
  return known == ranks_.end() ? RankSteps{} : known->second.seen;
}

uint64_t StepWatch::most_steps() const {
  uint64_t out = 0;
  for (const auto& [rank, state] : ranks_) {
    out = std::max(out, state.seen.steps);
  }
  return out;
}

double StepWatch::step_s() const {
  double out = -1;
  for (const auto& [rank, state] : ranks_) {
    out = std::max(out, state.seen.step_s);
  }
  return out;
}

double StepWatch::median_step_s(base::MonoNs from, base::MonoNs until) const {
  for (const auto& [rank, state] : ranks_) {
    std::vector<double> inside;
    for (const auto& [end, duration] : state.latest) {
      if (end <= until && end - duration >= from) {
        inside.push_back(base::ns_to_s(duration));
      }
    }
    if (!state.latest.empty()) {
      const auto middle = inside.begin() + static_cast<long>(inside.size() / 2);
      std::nth_element(inside.begin(), middle, inside.end());
      return inside.empty() ? -1 : *middle;
    }
  }
  return -1;
}

void StepWatch::take(base::Rank rank, State& state, const Span& span) {
  const base::MonoNs end = span.begin_ns + span.duration_ns;
  switch (span.stage) {
    case Stage::mark:
      if (!state.marks) {
        state.marks = true;
        certain_from_now(state);
      }
      end_step(rank, state, end);
      return;
    case Stage::optimizer:
      state.thread = span.thread;
      if (!state.optimizer) {
        state.optimizer = true;
        if (!state.marks) {
          certain_from_now(state);
        }
      }
      ++state.optimized;
      // The passes of the other steps have no spans: they are replays of a CUDA graph.
      if (++state.no_pass > kWithoutPass && 2 * state.no_pass > state.optimized) {
        state.passes = false;
      }
      // Several optimizers after one pass, or one that calls another, are one step.
      if (!state.marks && (state.worked || !state.passes)) {
        end_step(rank, state, end);
      }
      return;
    case Stage::forward:
    case Stage::backward:
      state.passes = state.worked = true;
      state.no_pass = 0;
      break;
    case Stage::checkpoint:
    case Stage::evaluation:
      state.aside_ns += span.thread == state.thread || state.thread == 0 ? span.duration_ns : 0;
      return;
    default:
      break;
  }
  if (!state.marks && !state.optimizer) {
    if (const auto inferred = state.inferred.take(span)) {
      state.guessed = true;
      end_step(rank, state, *inferred);
    }
  }
}

// Steps that were inferred before the first certain one may be parts of steps.
void StepWatch::certain_from_now(State& state) {
  state.last_end = 0;
  state.aside_ns = 0;
  state.inferred = {};
  if (state.guessed) {
    state.guessed = false;
    state.seen = {};
    state.clocked = 0;
    state.clock = {};
    if (gpu_) {
      state.clock.uses_gpu();
    }
    state.latest.clear();
    reference_ = base::kNoRank;
    detector_.reset();
  }
}

void StepWatch::end_step(base::Rank rank, State& state, base::MonoNs end) {
  const base::MonoNs begin = std::exchange(state.last_end, end);
  const int64_t aside = std::exchange(state.aside_ns, 0);
  state.worked = false;
  last_end_ = std::max(last_end_, end);
  if (begin == 0 || end - begin - aside <= 0) {
    return;
  }
  ++state.seen.steps;
  state.clock.ended({.begin_ns = begin, .end_ns = end, .aside_ns = aside});
  if (!gpu_) {
    take_clocked(rank, state);
  }
}

// How long the steps took is known later than that the host ended them.
void StepWatch::take_clocked(base::Rank rank, State& state) {
  for (const report::ClockedStep& step : state.clock.take()) {
    const int64_t duration = step.duration_ns - step.aside_ns;
    state.latest.emplace_back(step.begin_ns + step.duration_ns, duration);
    if (state.latest.size() > kMostLatest) {
      state.latest.pop_front();
    }
    RankSteps& seen = state.seen;
    ++state.clocked;
    const double seconds = base::ns_to_s(duration);
    const double weight = 1 / std::min(static_cast<double>(state.clocked), kMeanSteps);
    seen.step_s = seen.step_s < 0 ? seconds : seen.step_s + (seconds - seen.step_s) * weight;
    compare(rank, state, step);
  }
}

void StepWatch::restart(base::Rank reference) {
  reference_ = reference;
  without_reference_ = 0;
  detector_.emplace(gpu_ ? report::ChangeSettings{} : report::ChangeSettings::for_shared_cpus());
  pending_ = {};
  fastest_s_ = reported_s_ = 0;
}

void StepWatch::every_call_timed(bool on, base::MonoNs now) {
  if (on) {
    timed_from_ = now;
  }
  timed_until_ = on ? std::numeric_limits<base::MonoNs>::max() : now + kSettleNs;
}

void StepWatch::compare(base::Rank rank, const State& state, const report::ClockedStep& step) {
  const base::MonoNs end = step.begin_ns + step.duration_ns;
  if (threshold_ <= 0 || (end > timed_from_ && step.begin_ns < timed_until_)) {
    return;
  }
  if (rank != reference_) {
    if (detector_ && ++without_reference_ <= kMissed * ranks_.size()) {
      return;
    }
    restart(rank);
  }
  without_reference_ = 0;
  if (pending_.count == 0) {
    pending_ = {.step = state.clocked - 1, .begin = step.begin_ns};
  }
  ++pending_.count;
  pending_.total_ns += step.duration_ns - step.aside_ns;
  if (pending_.total_ns < kShortestNs) {
    return;
  }
  const Value value = std::exchange(pending_, {});
  values_[detector_->steps() % kKept] = value;
  if (const auto change = detector_->add(base::ns_to_s(value.total_ns) / static_cast<double>(value.count))) {
    judge(*change);
  }
}

void StepWatch::judge(const model::StepChange& change) {
  fastest_s_ = fastest_s_ > 0 ? std::min(fastest_s_, change.before_s) : change.before_s;
  if (change.after_s <= fastest_s_ * (1 + kAsFast)) {
    const bool was_told = reported_s_ > 0;
    fastest_s_ = reported_s_ = 0;
    if (was_told && as_fast_) {
      report(as_fast_, change);
    }
    return;
  }
  const double since_told = reported_s_ > 0 ? change.after_s / reported_s_ - 1 : threshold_;
  if (change.share <= 0) {
    return;
  }
  if (const double share = change.after_s / fastest_s_ - 1; share < threshold_ || since_told < threshold_) {
    if (longer_) {
      longer_(share);
    }
    return;
  }
  reported_s_ = change.after_s;
  ++reported_;
  model::StepChange reported = change;
  reported.before_s = fastest_s_;
  reported.share = change.after_s / fastest_s_ - 1;
  report(slower_, reported);
}

// `change` with the numbers of steps, not of values.
void StepWatch::report(const Report& to, model::StepChange change) const {
  const Value& latest = values_[(detector_->steps() - 1) % kKept];
  const auto number = static_cast<size_t>(change.step);
  const bool known = number + kKept > detector_->steps() - 1;
  const Value first = known ? values_[number % kKept] : Value{};
  change.step = static_cast<int64_t>(known ? first.step : latest.step);
  change.found_step = static_cast<int64_t>(latest.step);
  to(change, first.begin);
}

}  // namespace xpurun::launcher
