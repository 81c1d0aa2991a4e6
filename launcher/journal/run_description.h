// The part of run.json that is known before the command starts.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/options/run_options.h"

#include <string>

namespace xpurun::launcher {

// This host's name; "localhost" if the kernel provides none.

// Sets command, environment and options, with secrets masked.
void describe_run(model::RunManifest& manifest, const RunOptions& options, const std::string& host);

// For a job that already runs: the directory and environment of this process replace those of xpurun.
void describe_foreign_job(model::RunManifest& manifest, base::Pid pid);

}  // namespace xpurun::launcher
