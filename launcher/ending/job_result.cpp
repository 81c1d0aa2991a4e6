#include "launcher/ending/job_result.h"

#include "launcher/options/exit_status.h"

#include <algorithm>
#include <limits>

namespace xpurun::launcher {

namespace {

// Ranks that outlive their launcher.
void mark_left(std::vector<model::ProcessRecord>& processes, const ProcessTable& table) {
  const auto alive = table.living_ranks();
  for (model::ProcessRecord& p : processes) {
    p.left = std::any_of(alive.begin(), alive.end(), [&p](const TrackedProcess* rank) {
      return rank->record.pid == p.pid && rank->record.start_ticks == p.start_ticks;
    });
  }
}

}  // namespace

void complete_manifest(model::RunManifest& run, const ProcessTable& table, const JobState& job,
                       model::Interrupt interrupt) {
  run.child_status = job.command_status;
  run.processes = table.records();
  if (!job.detached && !job.ended_by_us) {
    mark_left(run.processes, table);
  }
  run.world_size = table.world_size();
  run.interrupt = interrupt;
  if (run.outcome == model::RunOutcome::running) {
    run.outcome = job.detached                    ? model::RunOutcome::detached
                  : job.command_status.signaled() ? model::RunOutcome::signal
                                                  : model::RunOutcome::exit;
    if (interrupt.signal != 0 && !job.command_status.succeeded()) {
      run.outcome = model::RunOutcome::interrupted;
    }
  }
  run.exit_status = exit_status_of(run, table, job);
}

int exit_status_of(const model::RunManifest& run, const ProcessTable& table, const JobState& job) {
  const bool hang = run.outcome == model::RunOutcome::hang;
  const auto failed = [](const model::ProcessRecord& r) { return r.death.wait_status.failed(); };
  // xpurun is not the parent of a foreign job's processes and often does not learn the status of the command.
  if (table.is_foreign() && !hang && !job.command_status.known()) {
    return std::any_of(run.processes.begin(), run.processes.end(), failed) ? kExitFailure : 0;
  }
  return exit_status(
      {.wait_status = job.command_status,
       .end = hang ? JobEnd::hang_ended : JobEnd::by_itself,
       .root_cause_signal = table.multi_process() ? root_cause_signal(table.records(), run.crashes) : 0});
}

int root_cause_signal(const std::vector<model::ProcessRecord>& processes,
                      const std::vector<model::CrashNotice>& crashes) {
  int signal = 0;
  double first = std::numeric_limits<double>::infinity();
  for (const model::ProcessRecord& r : processes) {
    const model::Death& d = r.death;
    const bool failed =
        r.role == model::ProcessRole::rank && d.happened && !d.follower && !d.wait_status.succeeded();
    double at_s = d.at_s;
    for (const model::CrashNotice& crash : crashes) {
      // A crashed rank is held for its dump, so its notice is earlier than its death.
      at_s = crash.pid == r.pid ? std::min(at_s, crash.at_s) : at_s;
    }
    if (failed && at_s < first) {
      first = at_s;
      signal = d.wait_status.signal();
    }
  }
  return signal;
}

}  // namespace xpurun::launcher
