// Looks up one exported symbol in the memory of a process, as the dynamic linker does. No file is opened, so
// deleted files and other mount namespaces cause no problem, and the supervisor (which must not map foreign
// files) can use this function.
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
