// Verdicts of runs without a culprit: finished, interrupted, not started, still going on.
#include "common/base/strings.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <sys/wait.h>

namespace xpurun::report {

using model::RunManifest;
using model::Verdict;

namespace {

std::string count_of_ranks(const RunManifest& run) {
  const size_t n = current_ranks(run).size();
  return n == 0   ? std::string("the command")
         : n == 1 ? std::string("the one rank")
                  : fmt::format("all {} ranks", n);
}

// Which signal ended the run, 0 if unknown.
int ending_signal(const RunManifest& run) {
  if (run.exit_status > 128 && run.exit_status < 128 + NSIG) {
    return run.exit_status - 128;
  }
  return run.child_status.signal();
}

}  // namespace

std::optional<Verdict> not_started(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::spawn_failed) {
    return std::nullopt;
  }
  Verdict v{.id = std::string(kExitNotStarted), .kind = "exit", .confidence = "high"};
  v.exit_code = run.exit_status;
  v.host = run.host;
  v.sentence =
      fmt::format("exit: the command could not be started: {}",
                  run.command.empty() ? std::string("it is empty") : base::sanitize(run.command.front()));
  v.next.text = "check the command's name, PATH and permissions";
  return v;
}

std::optional<Verdict> interrupted(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::interrupted) {
    return std::nullopt;
  }
  const int signal = ending_signal(run);
  const std::string by = signal == 0 ? std::string("by the user") : fmt::format("by {}", signal_name(signal));
  const std::string after = seconds_words(run.elapsed_s);
  if (auto hang = hung(scene)) {
    Verdict v = *hang;
    v.id = kInterruptedHung;
    v.kind = "interrupted";
    v.signal = signal;
    v.sentence = fmt::format("interrupted: {} after {}, during a {}", by, after, v.sentence);
    return v;
  }
  Verdict v{.id = std::string(kInterrupted), .kind = "interrupted", .confidence = "high"};
  v.host = run.host;
  v.signal = signal;
  v.seconds = run.elapsed_s;
  v.sentence = fmt::format("interrupted: {} after {}", by, after);
  return v;
}

std::optional<Verdict> finished(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::exit || !run.child_status.succeeded()) {
    return std::nullopt;
  }
  // A wrapper may hide a failure ("torchrun ...; true"). Unknown statuses are no failure if all ended well.
  const Ending* failure = scene.root_failure();
  if (failure != nullptr && failure->known) {
    return std::nullopt;
  }
  Verdict v{.id = std::string(kNoneFinished), .kind = "none", .confidence = "high"};
  v.host = run.host;
  v.seconds = run.elapsed_s;
  v.sentence = fmt::format("none: {} finished normally in {}", count_of_ranks(run),
                           base::human_duration(run.elapsed_s));
  return v;
}

std::optional<Verdict> still_running(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  Verdict v{.id = std::string(kRunning), .kind = "running", .confidence = "low"};
  v.host = run.host;
  v.seconds = run.elapsed_s;
  v.sentence = fmt::format("running: {} for {} when this was written, nothing wrong seen",
                           count_of_ranks(run), base::human_duration(run.elapsed_s));
  v.next.text = "if nothing runs any more, xpurun itself was killed and the end was not seen";
  return v;
}

}  // namespace xpurun::report
