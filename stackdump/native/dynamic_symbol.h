// Looks one exported symbol up in the memory of a process, as the dynamic linker would: no file is opened, so
// deleted files, other mount namespaces and the supervisor (which must not map foreign files) are no problem.
#pragma once

#include "stackdump/memory/remote_memory.h"

#include <string_view>

namespace xpurun::stackdump {

struct LoadedSymbol {
  Addr address = 0;
  uint64_t size = 0;
};

// `image` is the address where the ELF header is mapped.
std::optional<LoadedSymbol> find_dynamic_symbol(RemoteMemory& memory, Addr image, std::string_view name);

}  // namespace xpurun::stackdump
