// What the first SIGINT, SIGTERM or SIGHUP to xpurun has to do with the end of the run.
#pragma once

#include "common/model/run_manifest.h"
#include "report/diagnosis/ends/endings.h"

namespace xpurun::report {

// The signal ended the run. A command that exits with status 0 may have caught the signal, or ended by itself
// long after it: then only an end soon after the signal counts.
bool ended_by_interrupt(const model::RunManifest& run);

// The signal may be the reason of this ending: it came before, or at the same moment.
bool after_interrupt(const model::RunManifest& run, const Ending& e);

// Python raised KeyboardInterrupt, or the process died of SIGINT: somebody ended it, and nothing else is
// known.
bool by_sigint(const Ending& e);

}  // namespace xpurun::report
