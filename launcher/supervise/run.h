// run_job: starts the command, supervises it until its end and leaves a run directory. The only entry into
// launcher/supervise for the command line.
#pragma once

#include "launcher/options/run_options.h"

namespace xpurun::launcher {

// Returns the exit status of xpurun: the command's own, 128+N, 124, 125, 126 or 127 (DESIGN's table). Errors
// have been printed. Call once per process: it blocks signals and becomes a subreaper.
int run_job(const RunOptions& options);

}  // namespace xpurun::launcher
