// The description of a process in its core file: mappings, the identity of the mapped images, arguments and
// environment.
#pragma once

#include "stackdump/core/core_file.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/module_files.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::stackdump {

// From the segments, with the paths of NT_FILE and the names [vdso] and [stack].
ProcMaps core_maps(const CoreFile& core);

// Build id and segments of each mapped ELF file whose first page is in the core, by path.
std::map<std::string, ModuleFacts> core_modules(RemoteMemory& dumped, const ProcMaps& maps);

// Path of the program that the process ran; empty if unknown.
std::string core_program(const CoreNotes& notes, const ProcMaps& maps);

struct CoreArguments {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // at the start of the program; split at the first '='
};

// From the top of the main thread's stack; empty if that memory is not in the core.
CoreArguments core_arguments(RemoteMemory& memory, const CoreNotes& notes);

}  // namespace xpurun::stackdump
