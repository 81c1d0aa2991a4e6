// The second engine: elfutils' libdw on the same copied registers, stacks and files as the first one, so that
// both can be compared. Also source lines and inlined functions. With the build option libdw=disabled
// everything here says that it is not there.
#pragma once

#include "common/base/result.h"
#include "stackdump/native/unwinder.h"
#include "stackdump/symbols/symbol_cache.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

base::Result<std::unique_ptr<Unwinder>> make_libdw_unwinder(ModuleList& modules, SnapshotMemory& memory);

struct SourcePlace {
  std::string
      function;  // inlined at this place, as the linker would name it; empty for the frame's own function
  std::string file;
  int line = 0;
};

// Innermost first: the inlined functions around an address, then the function that has the symbol.
using SourcePlaces = std::unordered_map<Addr, std::vector<SourcePlace>>;

struct SourceLookup {
  SourcePlaces places;  // only addresses with debug information
  std::string note;     // why there may be fewer than there could be, or empty
};

// Works in a child process that is ended after `budget_ns`: debug information can be huge, or damaged.
// What `cache` holds is not looked up again.
SourceLookup look_up_sources(const std::vector<Addr>& addresses, ModuleList& modules, SymbolCache& cache,
                             int64_t budget_ns);

}  // namespace xpurun::stackdump
