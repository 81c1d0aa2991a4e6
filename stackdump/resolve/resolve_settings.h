// How a dump is resolved into named frames, after the process runs again.
#pragma once

#include "common/model/vocabulary.h"

#include <cstdint>
#include <string>

namespace xpurun::stackdump {

enum class UnwinderKind {
  own,    // libunwind's DWARF interpreter
  libdw,  // elfutils
  gdb,    // attaches once more
};

using model::GpuStacks;

// Other debuggers, which attach to the process after xpurun's own dump. Each debugger is ended at its time
// limit.
struct DebuggerSettings {
  std::string gdb = "gdb";
  int64_t gdb_limit_ns = 15'000'000'000;  // a supervised dump is ended after 20 s
  GpuStacks gpu = GpuStacks::never;
  std::string cuda_gdb = "cuda-gdb";
  int64_t gpu_limit_ns = 30'000'000'000;
};

struct ResolveSettings {
  UnwinderKind unwinder = UnwinderKind::own;
  std::string cache_directory;             // symbol cache; empty: none
  int64_t line_budget_ns = 1'000'000'000;  // for source lines and inlined functions; 0: no look-up
};

}  // namespace xpurun::stackdump
