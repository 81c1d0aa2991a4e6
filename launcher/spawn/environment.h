// The environment of the command: ours, plus our variables, one more LD_PRELOAD entry, and, where collectives
// are to be timed by it, our library as NCCL's profiler plugin.
#pragma once

#include <string>
#include <vector>

namespace xpurun::launcher {

// Our own environment as NAME=VALUE.
std::vector<std::string> current_environment();

// Puts `library` before the other entries of LD_PRELOAD, or behind them if one is the runtime of a sanitizer:
// ASan's ends the program if any library precedes it. Another entry of the same library is dropped.
std::vector<std::string> with_preload(std::vector<std::string> env, const std::string& library);
std::vector<std::string> with_variable(std::vector<std::string> env, const std::string& name,
                                       const std::string& value);

// When our library stands in for NCCL's profiler plugin.
enum class NcclProfiler { automatic, always, never };

// Makes `library` NCCL's profiler plugin, and remembers the one that would have been loaded, for the library
// to hand on to. `automatic`: if `timing`, and unless the user has asked NCCL for none at all. What an outer
// xpurun has put there is taken back first.
enum class Timed { no, yes };
std::vector<std::string> with_nccl_profiler(std::vector<std::string> env, const std::string& library,
                                            NcclProfiler when, Timed timing);

}  // namespace xpurun::launcher
