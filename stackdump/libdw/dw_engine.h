// The second engine: elfutils' libdw on the same copied registers, stacks and files as the first engine, so
// that their results are comparable. Also source lines and inlined functions. With the build option
// libdw=disabled every function here reports that libdw is missing.
#pragma once

#include "common/base/result.h"
#include "stackdump/native/symbol_cache.h"
#include "stackdump/native/unwinder.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

base::Result<std::unique_ptr<Unwinder>> make_libdw_unwinder(ModuleList& modules, SnapshotMemory& memory);

struct SourcePlace {
  std::string function;  // linkage name of the function inlined here; empty for the frame's own function
  std::string file;
  int line = 0;
};

// Innermost first: the inlined functions around an address, then the function that has the symbol.
using SourcePlaces = std::unordered_map<Addr, std::vector<SourcePlace>>;

struct SourceLookup {
  SourcePlaces places;  // only addresses with debug information
  std::string note;     // why lines may be missing; may be empty
};

// Runs in a child process, which is ended after `budget_ns`, because debug information can be huge or
// damaged. Addresses in `cache` are not looked up again.
SourceLookup look_up_sources(const std::vector<Addr>& addresses, ModuleList& modules, SymbolCache& cache,
                             int64_t budget_ns);

}  // namespace xpurun::stackdump
