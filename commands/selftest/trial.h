// Trial: one injection in one supervised job, and its result. TrialSettings hold for all trials.
#pragma once

#include "commands/selftest/host.h"
#include "commands/selftest/judge.h"
#include "common/base/clock.h"
#include "common/model/names.h"
#include "common/model/verdict.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

enum class TrialOutcome { right, wrong, skipped };

struct Trial {
  const Injection* injection = nullptr;
  TrialOutcome outcome = TrialOutcome::skipped;
  std::string reason;     // why it was skipped
  bool analysed = false;  // slow jobs: the job ended well, and the differences come from its analysis
  Expected expected;
  std::optional<model::Verdict> given;
  double seconds = -1;  // from the fault to the verdict; negative: unknown, or no fault
  int64_t steps = -1;   // slow jobs: from the fault until a change was certain; negative: none was found
  std::vector<std::string> differences;
  std::string directory;  // of the run; empty once it is removed
};

struct TrialSettings {
  Device device = Device::cpu;
  TestHost host;
  std::vector<std::string> python;  // the program's path and its arguments
  std::string job;                  // path of job.py
  std::vector<Place> places;        // of the job
  std::string scratch;              // directory with one directory a trial
  double hang_timeout_s = 3;
};

// The command line of the trial's xpurun, whose files go below `directory`.
std::vector<std::string> trial_command(const std::string& xpurun, const Injection& injection,
                                       const TrialSettings& settings, const std::string& directory);

// A trial that could not be started.
Trial failed_trial(const Injection& injection, const TrialSettings& settings, std::string problem);

// Reads the run directory of a trial that has ended, and compares the verdict.
Trial judge_trial(const Injection& injection, const TrialSettings& settings, const std::string& directory);

}  // namespace xpurun::launcher
