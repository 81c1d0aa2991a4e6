// run_job: starts the command, supervises it to its end and leaves a run directory. The one entry into
// launcher/supervise for the command line.
#pragma once

#include "launcher/options/run_options.h"

namespace xpurun::launcher {

// Returns the exit status of xpurun, DESIGN's table: the command's own; 128+N; 124; 125; 126/127. Errors have
// been printed. Call once per process: it blocks signals and becomes a subreaper.
int run_job(const RunOptions& options);

}  // namespace xpurun::launcher
