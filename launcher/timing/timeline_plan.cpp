#include "launcher/timing/timeline_plan.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

using Kind = TimelinePlan::Action::Kind;

constexpr int64_t kAtOnce = 0;
constexpr int64_t kSecondNs = 1'000'000'000;
// A trace needs a tenth of a second before its start.
constexpr int64_t kLeastAheadNs = 200'000'000;
constexpr int64_t kMostAheadNs = 700'000'000;
// Step times vary, so a trace starts this many steps before its first step is expected.
constexpr double kEarlySteps = 0.2;
// A step ends on the host before its work on the GPU has ended and has been read.
constexpr double kLeastSettleS = 0.5;
constexpr double kMostSettleS = 5;
// For ranks that never count the last step, because they have ended or are still.
constexpr double kPatienceS = 5;
constexpr double kPatienceSteps = 3;
constexpr double kPeriodSteps = 10;
constexpr double kShortestPeriodTraceS = 1;
constexpr double kLongestPeriodTraceS = 10;
constexpr double kLeastLimitS = 60;
constexpr double kMostLimitS = 3'600;
constexpr double kLimitFactor = 4;
// About 14 bytes each.
constexpr uint32_t kMostCalls = 1'000'000;
constexpr uint32_t kMostCallsOfAPeriod = 200'000;

int64_t floor_second(int64_t wall_ns) {
  return wall_ns / kSecondNs * kSecondNs;
}

bool is_periodic(const TimelineSpec& spec) {
  return spec.kind == TimelineSpec::Kind::every;
}

double period_trace_s(const TimelineSpec& spec, double step_s) {
  const double wanted = step_s < 0 ? kShortestPeriodTraceS : kPeriodSteps * step_s;
  return std::min(std::clamp(wanted, kShortestPeriodTraceS, kLongestPeriodTraceS), spec.every_s / 2);
}

double limit_of_steps(const TimelineSpec& spec, double step_s) {
  if (step_s < 0) {
    return kMostLimitS;
  }
  const double expected = static_cast<double>(spec.last - spec.first + 1) * step_s;
  return std::clamp(kLimitFactor * expected, kLeastLimitS, kMostLimitS);
}

}  // namespace

void TimelinePlan::note_steps(const Look& look) {
  if (look.fastest > counted_) {  // ranks that have ended are not seen any more
    counted_ = look.fastest;
    counted_at_ = look.now;
  }
}

bool TimelinePlan::is_over(const Look& look) {
  if (running_->until > 0) {
    return look.now >= running_->until;
  }
  if (running_->done == 0) {
    const double patience_s = std::max(kPatienceS, kPatienceSteps * look.step_s);
    if (running_->reached == 0 && look.fastest >= running_->spec.last) {
      running_->reached = look.now;
    }
    const bool all = look.slowest >= running_->spec.last;
    const bool some = running_->reached > 0 && look.now - running_->reached >= base::s_to_ns(patience_s);
    running_->done = all || some ? look.now : 0;
  }
  const double settle_s = std::clamp(look.step_s, kLeastSettleS, kMostSettleS);
  return running_->done > 0 &&
         look.now - std::max(running_->done, running_->begins) >= base::s_to_ns(settle_s);
}

std::optional<int64_t> TimelinePlan::steps_due(const Look& look) const {
  if (next_ >= specs_.size() || is_periodic(specs_[next_]) || look.ranks == 0) {
    return std::nullopt;
  }
  const TimelineSpec& spec = specs_[next_];
  if (look.fastest + 1 >= spec.first) {
    return kAtOnce;  // the steps have begun
  }
  if (look.step_s < 0) {
    return std::nullopt;
  }
  const double steps = static_cast<double>(spec.first - 1 - look.fastest) - kEarlySteps;
  // Also keeps numbers of steps far ahead from overflowing.
  const double ahead_s = steps * look.step_s - base::ns_to_s(look.now - counted_at_);
  if (ahead_s > 2) {
    return std::nullopt;
  }
  const int64_t at = floor_second(look.wall_ns + base::s_to_ns(std::max(ahead_s, 0.0)));
  if (at - look.wall_ns > kMostAheadNs) {
    return std::nullopt;
  }
  // Catching the first steps is worth more than a common start, so do not wait for the next full second.
  return at >= look.wall_ns + kLeastAheadNs ? at : kAtOnce;
}

std::optional<int64_t> TimelinePlan::period_due(const Look& look) const {
  if (specs_.empty() || !is_periodic(specs_.back()) || look.ranks == 0) {
    return std::nullopt;
  }
  const int64_t period = base::s_to_ns(specs_.back().every_s);
  // Multiples of the period since 1970, so that all nodes begin together.
  const int64_t at = floor_second((look.wall_ns / period + 1) * period);
  const int64_t ahead = at - look.wall_ns;
  if (ahead < kLeastAheadNs || ahead > kMostAheadNs || at == last_period_) {
    return std::nullopt;
  }
  return at;
}

TimelinePlan::Action TimelinePlan::start(const TimelineSpec& spec, int64_t at_wall_ns, const Look& look) {
  Action out{.kind = Kind::start, .spec = spec, .start_wall_ns = at_wall_ns};
  running_ = Running{.spec = spec};
  running_->begins = look.now + (at_wall_ns == kAtOnce ? kLeastAheadNs : at_wall_ns - look.wall_ns);
  if (spec.first_s > 0) {
    ++next_;
    running_->until = running_->begins + base::s_to_ns(spec.first_s);
    out.limit_s = spec.first_s + kPatienceS;
    out.count = kMostCalls;
  } else if (is_periodic(spec)) {
    const double length_s = period_trace_s(spec, look.step_s);
    last_period_ = at_wall_ns;
    running_->until = look.now + (at_wall_ns - look.wall_ns) + base::s_to_ns(length_s);
    out.limit_s = length_s + kPatienceS;
    out.count = kMostCallsOfAPeriod;
  } else {
    ++next_;
    out.limit_s = limit_of_steps(spec, look.step_s);
    out.count = kMostCalls;
  }
  return out;
}

TimelinePlan::Action TimelinePlan::look(const Look& look) {
  note_steps(look);
  const std::optional<int64_t> steps = steps_due(look);
  if (running_) {
    // Chosen steps go before the periodic ones.
    const bool gives_way = steps && is_periodic(running_->spec);
    if (!gives_way && !is_over(look)) {
      return {};
    }
    const TimelineSpec spec = running_->spec;
    running_.reset();
    return {.kind = Kind::end, .spec = spec};
  }
  if (look.ranks > 0 && next_ < specs_.size() && !is_periodic(specs_[next_]) && specs_[next_].first_s == 0 &&
      look.fastest >= specs_[next_].last) {
    return {.kind = Kind::missed, .spec = specs_[next_++]};
  }
  if (look.tracing) {
    return {};
  }
  if (steps) {
    return start(specs_[next_], *steps, look);
  }
  if (const auto period = period_due(look)) {
    return start(specs_.back(), *period, look);
  }
  return {};
}

std::vector<TimelineSpec> TimelinePlan::not_begun() const {
  std::vector<TimelineSpec> out;
  for (size_t i = next_; i < specs_.size(); ++i) {
    if (!is_periodic(specs_[i]) || last_period_ == 0) {
      out.push_back(specs_[i]);
    }
  }
  return out;
}

}  // namespace xpurun::launcher
