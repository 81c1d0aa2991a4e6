// What counts as slow: the one rule of findings, of verdicts, of the self-test, and of what is said while the
// job runs. Shares are shares of a step, or of the time. Pure.
#pragma once

#include "common/model/timing/speed_report.h"

#include <vector>

namespace xpurun::report {

// From these shares on, a cost is a finding.
inline constexpr double kLeastBlame = 0.04;  // by slow ranks
inline constexpr double kLeastWaste = 0.05;  // by a cause on all ranks
inline constexpr double kLeastInput = 0.10;  // by waits for data: no loader has the next batch at once
inline constexpr double kLeastPause = 0.01;  // by ranks that need longer for a checkpoint

// From this share on, a job is slow: a healthy pipeline on four H200 had 8 %.
inline constexpr double kSlowShare = 0.10;

// While the job runs, a rank for which the others wait is spoken of from these shares on. Two looks see less
// than the analysis of all steps, whose verdict has to confirm them.
inline constexpr double kLeastAlarmByCpu = 0.20;  // of waits that CPU times show
inline constexpr double kLeastAlarm = 0.15;       // of waits that were measured
inline constexpr double kLeastExpected = 0.05;    // likewise, of a job that has become slower
// A rank that was spoken of is over when it costs far less.
constexpr double alarm_share(double least, bool spoken_of) {
  return spoken_of ? least / 2 : least;
}

// A certain finding of this size. What costs all steps alike (SpeedProblem::cause) makes no job slower than
// it was, but is the next thing to improve.
bool is_costly(const model::SpeedFinding& finding);
// A rank or the whole job is slow, now and until the end.
bool makes_slow(const model::SpeedFinding& finding);
// The job was slow for some steps of its `elapsed_s`.
bool made_slow(const model::SpeedFinding& finding, double elapsed_s);

// The finding that the verdict is about: what is slow now, else the slow steps that are over and cost most;
// these also before all ranks' slowness now, if they are of a rank and cost more. Null: the job is not slow.
const model::SpeedFinding* slowest(const std::vector<model::SpeedFinding>& findings, double elapsed_s);

// Of slow steps that are over: seconds.
double lost_in_all(const model::SpeedFinding& spell);

}  // namespace xpurun::report
