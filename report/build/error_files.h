// torchelastic's error files, for ranks whose Python reported nothing itself: the bootstrap was off, or
// absent.
#pragma once

#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

namespace xpurun::report {

// Adds an exception for each rank that failed and has such a file.
void add_error_files(const model::RunDir& dir, model::RunManifest& run);

}  // namespace xpurun::report
