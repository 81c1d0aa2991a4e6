// ModuleVariables: what a script's top level has bound, as far as no function of the script names it: only
// the thread that runs the top level itself binds those.
#pragma once

#include "stackdump/cpython/frames.h"

#include <unordered_map>
#include <unordered_set>

namespace xpurun::stackdump {

class ModuleVariables {
 public:
  // The objects, the youngest variable's first, at most `limit`. None if the frame runs no module's code.
  std::vector<Addr> values(RemoteMemory& memory, const RawFrame& frame, const Offsets& offsets, size_t limit);

 private:
  using Names = std::unordered_set<Addr>;  // interned: one str a name

  // Null if the code is no module's.
  const Names* names_in_functions(RemoteMemory& memory, Addr code, const Offsets& offsets);

  std::unordered_map<Addr, std::optional<Names>> known_;  // by code object
};

}  // namespace xpurun::stackdump
