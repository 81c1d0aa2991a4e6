// The environment of the command: xpurun's own, plus xpurun's variables, the preload library in LD_PRELOAD,
// and the preload library as NCCL's profiler plugin if collectives are timed by it.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// xpurun's own environment as NAME=VALUE.
std::vector<std::string> current_environment();

// Puts `library` before the other entries of LD_PRELOAD, or behind them if one is the runtime of a sanitizer:
// ASan's ends the program if any library precedes it. Another entry of the same library is dropped.
std::vector<std::string> with_preload(std::vector<std::string> env, const std::string& library);
std::vector<std::string> with_variable(std::vector<std::string> env, const std::string& name,
                                       const std::string& value);

// For programs outside the job: without the preload library, and without the variables that an outer xpurun
// has set for its own job.
std::vector<std::string> without_preload(std::vector<std::string> env);

// Condition for the preload library to be NCCL's profiler plugin.
enum class NcclProfiler { automatic, always, never };

// Makes `library` NCCL's profiler plugin and records the plugin that NCCL would have loaded, so that the
// library can chain it. `automatic`: only if `timing`, and not if the user has disabled NCCL's plugins. The
// setting of an outer xpurun is undone first.
enum class Timed { no, yes };
std::vector<std::string> with_nccl_profiler(std::vector<std::string> env, const std::string& library,
                                            NcclProfiler when, Timed timing);

}  // namespace xpurun::launcher
