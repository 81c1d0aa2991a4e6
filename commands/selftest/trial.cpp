#include "commands/selftest/trial.h"

#include "commands/selftest/slow_trial.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/stat.h>

namespace xpurun::launcher {

namespace {

int ranks_of(const Injection& injection, const TrialSettings& settings) {
  return injection.ranks_on(settings.device, settings.host.gpus);
}

// The job writes the file at the moment of the fault. Nothing if there was no fault.
std::optional<int64_t> fault_wall_ns(const std::string& directory) {
  struct stat file {};
  if (::stat((directory + "/fault").c_str(), &file) != 0) {
    return std::nullopt;
  }
  return int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
}

// Of a hang when the verdict was found, of anything else when the run had ended.
double verdict_at_s(const model::RunManifest& run) {
  for (const model::Stall& stall : run.stalls) {
    if (stall.verdict_s >= 0 && stall.verdict.id == run.verdict.id) {
      return stall.verdict_s;
    }
  }
  return run.elapsed_s;
}

}  // namespace

std::vector<std::string> trial_command(const std::string& xpurun, const Injection& injection,
                                       const TrialSettings& settings, const std::string& directory) {
  std::vector<std::string> out{xpurun, "run", "--out", directory + "/run", "--metrics-port", "off"};
  if (injection.slow) {
    out.emplace_back("--no-report");
  } else {
    out.insert(out.end(), {"--hang-timeout", fmt::format("{}", settings.hang_timeout_s), "--busy-timeouts",
                           "1", "--on-hang", injection.recovers ? "report" : "kill", "--grace", "2s"});
  }
  out.emplace_back("--");
  out.insert(out.end(), settings.python.begin(), settings.python.end());
  out.insert(out.end(),
             {settings.job, "launch", std::string(injection.name),
              fmt::format("{}", ranks_of(injection, settings)), directory,
              fmt::format("{}", settings.hang_timeout_s), settings.device == Device::gpu ? "gpu" : "cpu"});
  return out;
}

Trial failed_trial(const Injection& injection, const TrialSettings& settings, std::string problem) {
  return {.injection = &injection,
          .outcome = TrialOutcome::wrong,
          .expected = expected_of(injection, settings.device, ranks_of(injection, settings), settings.places),
          .differences = {std::move(problem)}};
}

// Adds the comparison of a slow job, which has ended well.
void judge_slow_trial(const model::RunManifest& run, Trial& trial) {
  const auto slow = read_slow_trial(trial.directory);
  if (!slow) {
    trial.differences.push_back(base::to_line(slow.error()));
    return;
  }
  trial.analysed = true;
  trial.given = slow_verdict(slow->speed, run.elapsed_s);
  trial.differences = differences(trial.expected, *trial.given);
  for (std::string& one : slow_differences(slow->speed, run.slowdowns, slow->fault_step, run.elapsed_s)) {
    trial.differences.push_back(std::move(one));
  }
  trial.steps = steps_to_find(slow->speed, slow->fault_step);
  const auto fault = fault_wall_ns(trial.directory);
  if (fault && !run.slowdowns.empty()) {
    trial.seconds = base::ns_to_s(run.started_wall_ns - *fault) + run.slowdowns.front().at_s;
  }
}

Trial judge_trial(const Injection& injection, const TrialSettings& settings, const std::string& directory) {
  const auto run = model::load_run_manifest(directory + "/run/run.json");
  Trial out = failed_trial(injection, settings, run ? std::string() : base::to_line(run.error()));
  out.directory = directory;
  if (!run) {
    return out;
  }
  out.given = run->verdict;
  if (injection.slow && run->child_status.succeeded()) {
    out.differences.clear();
    judge_slow_trial(*run, out);
  } else {
    out.differences = differences(out.expected, run->verdict);
  }
  out.outcome = out.differences.empty() ? TrialOutcome::right : TrialOutcome::wrong;
  if (const auto fault = fault_wall_ns(directory); fault && !injection.recovers) {
    out.seconds = base::ns_to_s(run->started_wall_ns - *fault) + verdict_at_s(*run);
  }
  return out;
}

}  // namespace xpurun::launcher
