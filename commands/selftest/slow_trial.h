// Slow jobs of the selftest: the analysis of their speed as a verdict, and the errors of the analysis. Pure,
// except read_slow_trial().
#pragma once

#include "commands/selftest/injection.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/speed_report.h"
#include "common/model/verdict.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// The finding that makes the job slow (report/speed/ranks/slow_rule.h): "slow_rank.input" with its ranks,
// "slower.network". "none.not_slow" if there is none. `elapsed_s`: of the run.
model::Verdict slow_verdict(const model::SpeedReport& speed, double elapsed_s);

// The errors besides id and ranks: a begin other than that of the fault (`fault_step`; negative: there was no
// fault), and warnings about a job that is not slow.
std::vector<std::string> slow_differences(const model::SpeedReport& speed,
                                          const std::vector<model::Slowdown>& reported, int64_t fault_step,
                                          double elapsed_s);

// Steps from the fault until a change was certain; negative: none was found.
int64_t steps_to_find(const model::SpeedReport& speed, int64_t fault_step);

struct SlowTrial {
  model::SpeedReport speed;
  int64_t fault_step = -1;
};
// `directory` is that of the trial: the run is below it, and the file `fault` holds the step of the fault.
base::Result<SlowTrial> read_slow_trial(const std::string& directory);

}  // namespace xpurun::launcher
