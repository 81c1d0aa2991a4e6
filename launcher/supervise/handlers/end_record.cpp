#include "launcher/supervise/handlers/end_record.h"

#include "launcher/ending/job_result.h"
#include "launcher/machine/memory/control_groups.h"

#include <unistd.h>

namespace xpurun::launcher {

// The ranks inherit the group of xpurun, unless their launcher moves them.
EndRecord::EndRecord(Parts parts, Hooks hooks)
    : parts_(parts), hooks_(std::move(hooks)), at_start_(read_memory_group(HostFiles(), ::getpid())) {}

void EndRecord::note_memory() {
  model::MemoryGroup now = read_memory_group(HostFiles(), ::getpid());
  now.oom_kills -= at_start_.oom_kills;
  if (!now.empty() && now.path == at_start_.path) {
    parts_.journal.manifest().memory = std::move(now);
  }
}

void EndRecord::write() {
  hooks_.find_deaths();
  note_memory();
  model::RunManifest& run = parts_.journal.manifest();
  if (hooks_.restart_pending() && !parts_.job.command_status.succeeded()) {
    run.outcome = model::RunOutcome::hang;  // the launcher has ended instead of restarting the ranks
  }
  complete_manifest(run, parts_.table, parts_.job, hooks_.interrupt());
  hooks_.finish_files();
  if (!run.dumps.empty() || !model::requests_left(parts_.calls.all()).empty()) {
    parts_.calls.save(parts_.journal.dir().file(model::kCollectivesFile));
  }
  parts_.journal.save_now();
  hooks_.recorded();
}

}  // namespace xpurun::launcher
