// How a dump is turned into frames with names, once the process runs again.
#pragma once

#include <cstdint>
#include <string>

namespace xpurun::stackdump {

enum class UnwinderKind {
  own,    // libunwind's DWARF interpreter
  libdw,  // elfutils
  gdb,    // attaches once more
};

struct ResolveSettings {
  UnwinderKind unwinder = UnwinderKind::own;
  std::string cache_directory;             // of symbols; empty: none
  int64_t line_budget_ns = 1'000'000'000;  // for source lines and inlined functions; 0: none are looked up
};

}  // namespace xpurun::stackdump
