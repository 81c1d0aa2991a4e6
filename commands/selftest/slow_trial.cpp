#include "commands/selftest/slow_trial.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/names.h"
#include "common/model/run_dir.h"
#include "report/build/speed_files.h"
#include "report/speed/ranks/slow_rule.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

// The reported beginning may lie before the fault because of noise, and after it: the first slow step of the
// job is the one after the fault.
constexpr int64_t kEarlier = 10;
constexpr int64_t kLater = 20;

bool near_fault(int64_t step, int64_t fault_step) {
  return step >= fault_step - kEarlier && step <= fault_step + kLater;
}

}  // namespace

model::Verdict slow_verdict(const model::SpeedReport& speed, double elapsed_s) {
  model::Verdict out;
  out.id = "none.not_slow";
  out.sentence = speed.sentence;
  if (const model::SpeedFinding* first = report::slowest(speed.findings, elapsed_s)) {
    out.id = fmt::format("{}.{}", name_of(first->problem), name_of(first->cause));
    out.ranks = first->ranks;
    out.sentence = first->sentence;
  }
  for (const model::SpeedFinding& finding : speed.findings) {
    out.evidence.push_back(finding.sentence);
  }
  return out;
}

std::vector<std::string> slow_differences(const model::SpeedReport& speed,
                                          const std::vector<model::Slowdown>& reported, int64_t fault_step,
                                          double elapsed_s) {
  std::vector<std::string> out;
  if (speed.source == model::StepSource::none) {
    out.push_back(fmt::format("no stable step: {}", speed.why));
  }
  const model::SpeedFinding* first = report::slowest(speed.findings, elapsed_s);
  if (fault_step >= 0 && first != nullptr && !near_fault(first->since, fault_step)) {
    out.push_back(fmt::format("since step {} instead of {}", first->since, fault_step));
  }
  for (const model::Slowdown& one : reported) {
    if (fault_step < 0 || !near_fault(one.step, fault_step)) {
      out.push_back(fmt::format("while the job ran, step {} was reported as slower", one.step));
    }
  }
  return out;
}

int64_t steps_to_find(const model::SpeedReport& speed, int64_t fault_step) {
  for (const model::StepChange& change : speed.changes) {
    if (fault_step >= 0 && near_fault(change.step, fault_step)) {
      return change.found_step - fault_step;
    }
  }
  return -1;
}

base::Result<SlowTrial> read_slow_trial(const std::string& directory) {
  XPURUN_TRY_ASSIGN(const model::RunDir run, model::RunDir::find(directory + "/run"));
  XPURUN_TRY_ASSIGN(const report::JobRuns job, report::read_job(run));
  SlowTrial out{.speed = report::read_speed(job, {}).report};
  if (const auto fault = base::read_regular_file(directory + "/fault")) {
    out.fault_step = base::parse_int(base::trim(*fault)).value_or(0);
  }
  return out;
}

}  // namespace xpurun::launcher
