// The part of run.json that is known before the command starts.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/options/run_options.h"

#include <string>

namespace xpurun::launcher {

// The name of this host, "localhost" if the kernel does not tell it.
std::string host_name();

// Command, environment and options; secrets are masked.
void describe_run(model::RunManifest& manifest, const RunOptions& options, const std::string& host);

}  // namespace xpurun::launcher
