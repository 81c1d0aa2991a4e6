// The time of a run as an axis: places in per cent, round times, and when the steps began.
#pragma once

#include "report/run/run_report.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::report {

class RunAxis {
 public:
  explicit RunAxis(const model::RunManifest& run);

  bool empty() const;
  double end() const { return end_s_; }
  double share(double s) const;
  std::string percent(double s) const;
  // Times that differ by less than this are the same place.
  int step(double s) const;
  // "14:03:12", with the date if the run is longer than a day; without a clock the time since the start.
  std::string time(double s) const;
  // Seconds since the start at which the clock shows a round time.
  std::vector<double> ticks() const;
  // Seconds since the start of the run.
  double of_wall(int64_t wall_ns) const { return static_cast<double>(wall_ns - started_) * 1e-9; }
  bool has_clock() const { return started_ > 0; }
  // "14:03:12, 41 s in"
  std::string moment(double s) const;

 private:
  int64_t started_;
  double end_s_;
};

// When the steps began, between the moments that are known.
class StepTimes {
 public:
  StepTimes(const std::optional<model::SpeedReport>& speed, const RunAxis& axis);

  bool empty() const { return known_.empty(); }
  // Seconds since the start of the run; the step is at most the number of steps.
  double begin_s(double step) const;
  // Negative: before the first step, or after the last.
  int64_t step_at(double s) const;
  // [[seconds, step], ...]
  std::string text() const;

 private:
  std::vector<std::pair<double, double>> known_;  // step, seconds since the start of the run
};

}  // namespace xpurun::report
