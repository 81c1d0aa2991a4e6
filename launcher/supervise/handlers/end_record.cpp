#include "launcher/supervise/handlers/end_record.h"

#include "launcher/ending/job_result.h"

namespace xpurun::launcher {

void EndRecord::write() {
  hooks_.find_deaths();
  model::RunManifest& run = parts_.journal.manifest();
  if (hooks_.restart_pending() && !parts_.job.command_status.succeeded()) {
    run.outcome = model::RunOutcome::hang;  // the launcher has ended instead of restarting the ranks
  }
  complete_manifest(run, parts_.table, parts_.job, hooks_.interrupt());
  hooks_.finish_files();
  if (!run.dumps.empty()) {
    parts_.calls.save(parts_.journal.dir().file(model::kCollectivesFile));
  }
  parts_.journal.save_now();
  hooks_.recorded();
}

}  // namespace xpurun::launcher
