// ModuleVariables: the variables of a script's top level that no function of the script names. Only the
// thread that runs the top level binds such a variable.
#pragma once

#include "stackdump/cpython/frames.h"

#include <unordered_map>
#include <unordered_set>

namespace xpurun::stackdump {

class ModuleVariables {
 public:
  // The objects, newest variable first, at most `limit` of them. Empty if the frame does not run a module's
  // top level.
  std::vector<Addr> values(RemoteMemory& memory, const RawFrame& frame, const Offsets& offsets, size_t limit);

 private:
  using Names = std::unordered_set<Addr>;  // names are interned: one str object per name

  // Null if the code is not the top level of a module.
  const Names* names_in_functions(RemoteMemory& memory, Addr code, const Offsets& offsets);

  std::unordered_map<Addr, std::optional<Names>> known_;  // by code object
};

}  // namespace xpurun::stackdump
