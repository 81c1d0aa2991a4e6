// What the launcher and the preload must agree on about NCCL's profiler interface: the variable by which one
// tells the other, and the releases of NCCL that are known for trouble.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stdint.h>

namespace xpurun::wire {

// NCCL's own: path or name of the plugin; NCCL loads one a process.
inline constexpr char kNcclPluginEnv[] = "NCCL_PROFILER_PLUGIN";

// Ours: "auto:" or "always:", then what kNcclPluginEnv was before we put our library there, or "" if it was
// not set.
inline constexpr char kProfilerEnv[] = "XPURUN_RUN_PROFILER";
inline constexpr char kProfilerAuto[] = "auto:";
inline constexpr char kProfilerAlways[] = "always:";

// NCCL keeps a plugin's name in so many bytes, the end included.
inline constexpr uint32_t kNcclPluginNameBytes = 255;

// NCCL's proxy makes room in /dev/shm the first time that it has something to do, also for a profiler alone,
// and crashes where it finds none (NVIDIA/nccl pull request 2326). For every rank of the node; it was 40 MB
// in 2.28.
inline constexpr uint64_t kProfilerShmBytes = uint64_t{64} << 20;

struct BadNccl {
  int minor;  // of NCCL 2
  int patch;
  const char* trouble;
};

// With any plugin that asks for the kernels' times.
inline constexpr BadNccl kBadNccl[] = {
    {30, 3, "its profiler interface is known to crash (NVIDIA/nccl issue 2112)"},
    {31, 2, "its profiler costs 4 to 13 % on messages of 128 KiB to 4 MiB (NVIDIA/nccl issue 2355)"},
};

// `code` as ncclGetVersion() gives it; nullptr: nothing is known against it.
constexpr const char* trouble_of_nccl(int code) {
  for (const BadNccl& bad : kBadNccl) {
    if (code == 20000 + bad.minor * 100 + bad.patch) {
      return bad.trouble;
    }
  }
  return nullptr;
}

}  // namespace xpurun::wire
