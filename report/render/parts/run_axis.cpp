#include "report/render/parts/run_axis.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace xpurun::report {

using base::tr;

namespace {

constexpr int kAxisSteps = 400;
constexpr double kMostTicks = 6;
constexpr double kDayS = 86400;
constexpr double kLongestS = 1e9;                               // a file may hold any number
constexpr int64_t kLatestStart = INT64_C(8000000000000000000);  // in nanoseconds since the epoch

}  // namespace

RunAxis::RunAxis(const model::RunManifest& run)
    : started_(run.started_wall_ns < kLatestStart ? run.started_wall_ns : 0), end_s_(run.elapsed_s) {
  for (const model::ProcessRecord& p : run.processes) {
    end_s_ = std::max({end_s_, p.last_progress_s, p.death.happened ? p.death.at_s : 0});
  }
}

bool RunAxis::empty() const {
  return !(end_s_ > 0 && end_s_ < kLongestS);
}

double RunAxis::share(double s) const {
  return std::clamp(s / end_s_, 0.0, 1.0);
}

std::string RunAxis::percent(double s) const {
  return fmt::format("{:.2f}%", 100 * share(s));
}

int RunAxis::step(double s) const {
  return static_cast<int>(std::lround(share(s) * kAxisSteps));
}

std::string RunAxis::time(double s) const {
  s = std::clamp(s, 0.0, end_s_);
  if (started_ <= 0) {
    return base::human_duration(s);
  }
  const std::string iso = base::utc_iso8601(started_ + static_cast<int64_t>(s * 1e9));
  const std::string time = iso.size() >= 19 ? iso.substr(11, 8) : iso;
  return end_s_ > kDayS && iso.size() >= 19 ? iso.substr(5, 5) + " " + time : time;
}

std::vector<double> RunAxis::ticks() const {
  constexpr std::array kRound = {0.01,  0.02,   0.05,   0.1,    0.2,     0.5,     1.0,    2.0,
                                 5.0,   10.0,   15.0,   30.0,   60.0,    120.0,   300.0,  600.0,
                                 900.0, 1800.0, 3600.0, 7200.0, 10800.0, 21600.0, 43200.0};
  const auto fits = std::find_if(kRound.begin(), kRound.end(),
                                 [this](double every) { return end_s_ / every <= kMostTicks; });
  double every = fits == kRound.end() ? kDayS : *fits;
  while (end_s_ / every > kMostTicks) {
    every *= 2;
  }
  const double begin = static_cast<double>(started_ % base::s_to_ns(kDayS)) * 1e-9;
  std::vector<double> out;
  for (double at = (std::floor(begin / every) + 1) * every - begin; at < end_s_; at += every) {
    out.push_back(at);
  }
  return out;
}

std::string RunAxis::moment(double s) const {
  return started_ <= 0 ? tr("{} in", base::human_duration(s))
                       : tr("{}, {} in", time(s), base::human_duration(s));
}

StepTimes::StepTimes(const std::optional<model::SpeedReport>& speed, const RunAxis& axis) {
  if (!speed || !axis.has_clock()) {
    return;
  }
  for (const model::StepBin& bin : speed->series) {
    if (bin.wall_ns > 0 && bin.wall_ns < kLatestStart) {
      known_.emplace_back(static_cast<double>(bin.first), axis.of_wall(bin.wall_ns));
    }
  }
  if (!known_.empty() && speed->last_wall_ns > 0 && speed->last_wall_ns < kLatestStart) {
    known_.emplace_back(static_cast<double>(speed->steps), axis.of_wall(speed->last_wall_ns));
  }
  const bool sorted = std::is_sorted(known_.begin(), known_.end()) &&
                      std::is_sorted(known_.begin(), known_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (!sorted || known_.size() < 2) {
    known_.clear();  // the clocks of several hosts, or a damaged file
  }
}

double StepTimes::begin_s(double step) const {
  const auto next = std::upper_bound(known_.begin() + 1, known_.end() - 1, step,
                                     [](double at, const auto& k) { return at < k.first; });
  const auto& [from, from_s] = *(next - 1);
  const auto& [to, to_s] = *next;
  return to > from ? from_s + (step - from) / (to - from) * (to_s - from_s) : from_s;
}

int64_t StepTimes::step_at(double s) const {
  if (empty() || s < known_.front().second || s > known_.back().second) {
    return -1;
  }
  const auto next = std::upper_bound(known_.begin() + 1, known_.end() - 1, s,
                                     [](double at, const auto& k) { return at < k.second; });
  const auto& [from, from_s] = *(next - 1);
  const auto& [to, to_s] = *next;
  return static_cast<int64_t>(to_s > from_s ? from + (s - from_s) / (to_s - from_s) * (to - from) : from);
}

std::string StepTimes::text() const {
  std::string out;
  for (const auto& [step, s] : known_) {
    out += fmt::format("{}[{:.3f},{:.0f}]", out.empty() ? "" : ",", s, step);
  }
  return "[" + out + "]";
}

}  // namespace xpurun::report
