// The parts of NCCL's profiler interface that launcher and preload library share: an environment variable and
// the list of NCCL releases with known failures. Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stdint.h>

namespace xpurun::wire {

// NCCL's own variable: path or name of the plugin. NCCL loads at most one plugin per process.
inline constexpr char kNcclPluginEnv[] = "NCCL_PROFILER_PLUGIN";

// xpurun's variable: "auto:" or "always:", then the previous value of kNcclPluginEnv, empty if it was unset.
inline constexpr char kProfilerEnv[] = "XPURUN_RUN_PROFILER";
inline constexpr char kProfilerAuto[] = "auto:";
inline constexpr char kProfilerAlways[] = "always:";

// Size in bytes of NCCL's buffer for the plugin's name, including the terminating NUL.
inline constexpr uint32_t kNcclPluginNameBytes = 255;

// NCCL's proxy allocates space in /dev/shm for its first work, even for a profiler alone, and crashes if the
// allocation fails (NVIDIA/nccl pull request 2326). Bytes per rank of the node; NCCL 2.28 needs 40 MB.
inline constexpr uint64_t kProfilerShmBytes = uint64_t{64} << 20;

struct BadNccl {
  int minor;  // minor version of NCCL 2
  int patch;
  const char* trouble;
};

// Releases that fail with any plugin that requests kernel times.
inline constexpr BadNccl kBadNccl[] = {
    {30, 3, "its profiler interface is known to crash (NVIDIA/nccl issue 2112)"},
    {31, 2, "its profiler costs 4 to 13 % on messages of 128 KiB to 4 MiB (NVIDIA/nccl issue 2355)"},
};

// `code` is ncclGetVersion()'s. Returns the known problem, or nullptr.
constexpr const char* trouble_of_nccl(int code) {
  for (const BadNccl& bad : kBadNccl) {
    if (code == 20000 + bad.minor * 100 + bad.patch) {
      return bad.trouble;
    }
  }
  return nullptr;
}

}  // namespace xpurun::wire
