// Since when a series of step times is slower or faster. A state machine, fed step by step: bounded memory,
// bounded time per step. Single slow steps (spikes), long single steps (pauses: checkpoints, evaluation) and
// steps that alternate between shapes are no changes. No thread rules; no clock.
#pragma once

#include "common/model/timing/speed_report.h"
#include "report/speed/changes/run_lengths.h"

#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace xpurun::report {

// A single step that lasts longer than so many usual ones is a pause.
inline constexpr double kPause = 5;

struct ChangeSettings {
  double least_share = 0.05;  // smaller changes are not reported
  double least_spreads = 3;   // nor those below this number of standard deviations of a step
  double hazard = 250;        // expected number of steps between two changes
  size_t least_after = 10;    // steps that a new level must have lasted, the one before half as long again,
                              // unless the change is very large
  double least_ramp = 0.05;   // as least_share, of slow rises and falls
  // If two levels have lasted this long (0: never), the change may be smaller than least_spreads, if it is at
  // least long_share, and all parts of the new level lie apart from all of the old.
  size_t long_level = 125;
  double long_share = 0.10;

  // For jobs that compute on CPUs: their step times hold the load of everybody else on the machine, which
  // comes for some steps and goes, and drifts.
  static ChangeSettings for_shared_cpus() { return {.least_after = 40, .least_ramp = 0.35, .long_level = 0}; }
};

class ChangeDetector {
 public:
  explicit ChangeDetector(ChangeSettings settings = {}) : settings_(settings) {}

  // The next step, in seconds. The change, when it is certain: about ten steps after a clear level shift. A
  // ramp that continues is reported again, with the first step of the new part.
  std::optional<model::StepChange> add(double seconds);

  size_t steps() const { return next_; }
  size_t spikes() const { return spikes_; }
  size_t pauses() const { return pauses_; }

 private:
  struct Value {
    size_t step;
    double log_seconds;
  };
  // Of the values before a suspected change.
  struct Baseline {
    double level = 0;  // median of the logarithms
    double low = 0;    // tenth of the values below
    double high = 0;   // tenth of the values above
    double spread = 0;
    double memory = 1;  // factor on the spread of means, because neighbouring steps are alike
  };
  static Baseline baseline_of(std::span<const Value> values);

  void settle_suspects();
  std::optional<model::StepChange> accept(const Value& value);
  std::optional<model::StepChange> level_shift();
  std::optional<model::StepChange> long_shift();
  std::optional<model::StepChange> ramp();
  bool differs(const Baseline& before, std::span<const Value> after, double least_share) const;
  void forget_before(size_t step);

  ChangeSettings settings_;
  size_t next_ = 0;
  size_t spikes_ = 0;
  size_t pauses_ = 0;
  std::vector<Value> suspects_;     // slow steps that may be spikes
  size_t slow_run_ = 0;             // consecutive slow steps
  std::deque<bool> recent_spikes_;  // of the latest steps
  std::vector<Value> values_;       // since the latest change, the oldest ones dropped
  std::vector<Value> reference_;    // the first values since the latest change, for ramps
  Baseline now_;                    // of values_, for the recognition of spikes
  Baseline start_;                  // of reference_
  std::optional<RunLengths> lengths_;
  double risen_ = 0;  // sums of what exceeds the reference level
  double fallen_ = 0;
  size_t rise_step_ = 0;
  size_t fall_step_ = 0;
};

// All changes of a finished run; parts of one ramp are one change.
std::vector<model::StepChange> find_changes(std::span<const double> seconds, ChangeSettings settings = {});
// Joins `change` to the last of `changes` if both are parts of one ramp.
void add_change(std::vector<model::StepChange>& changes, const model::StepChange& change);

}  // namespace xpurun::report
