// Prepares the start of the command: its environment with the preload library.
#pragma once

#include "common/model/run_manifest.h"
#include "launcher/options/run_options.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// The Python functions that are traced from the start, separated by commas: those of --trace-python, and with
// --timing full the waits for the GPU. "?" before a name: nothing is said where a program lacks the function.
std::string traced_at_start(const RunOptions& options);

// Adds the preload library and its settings to `env`. Records in the manifest the library's path, or why the
// library is off. `notice_path`: absolute path of the NoticeServer's socket.
std::vector<std::string> with_preload_setup(std::vector<std::string> env, const RunOptions& options,
                                            const std::string& notice_path, model::RunManifest& manifest);

}  // namespace xpurun::launcher
