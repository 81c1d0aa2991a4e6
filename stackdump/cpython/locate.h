// Finds the CPython runtime in a process: the address of _PyRuntime, the version and the layout. The process
// is never stopped. Interpreters that export _PyRuntime (every interpreter that can load extension modules)
// are found without opening a file, so the supervisor may use this search too. Fallbacks: first the section
// .PyRuntime or the symbol in the file, then a scan of the data of the process.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/cpython/offsets/offsets.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/elf_image.h"

#include <functional>
#include <string>
#include <utility>

namespace xpurun::stackdump {

struct PythonRuntime {
  Addr address = 0;     // address of _PyRuntime
  std::string version;  // "3.12.1", "3.14.0t" if free-threaded
  std::string path;     // the image that contains _PyRuntime: python or libpython
  Offsets offsets;
};

// The reason why there is no PythonRuntime.
enum class NoPython {
  absent,       // neither python nor libpython is mapped: another program
  not_ready,    // mapped, but the interpreter is not yet or no longer initialised
  unsupported,  // a version or build with an unknown layout
};

struct PythonLookup {
  NoPython why = NoPython::absent;
  std::string reason;  // text for a note; empty if Python was found
  std::optional<PythonRuntime> runtime;
};

enum class LocateEffort {
  quick,     // exported symbols, and the files of images named after Python
  thorough,  // also the file of any program and, if files of CPython are mapped, all data of the process
};

// A mapped file that may hold a runtime.
struct PythonImage {
  Addr image = 0;  // address of the mapped ELF header, 0 if unknown
  std::string path;
  bool is_exe = false;
};

// The files of the process to search, if it is not a live one.
struct PythonFiles {
  std::string exe;  // path of the program in the process; may be empty
  // The image of a mapped file and its load bias, or nothing.
  std::function<std::pair<const ElfImage*, Addr>(const PythonImage&)> open;
};

PythonLookup find_python(base::Pid pid, const ProcMaps& maps, RemoteMemory& memory, LocateEffort effort);
// With thorough effort.
PythonLookup find_python(const PythonFiles& files, const ProcMaps& maps, RemoteMemory& memory);

// Version and layout of the runtime at an address, verified against the memory. `minor` is a guess from file
// names, if there is one.
PythonLookup identify_python(RemoteMemory& memory, const PythonImage& image, Addr runtime,
                             std::optional<int> minor);

// "/usr/lib/libpython3.12.so.1.0" or "/usr/bin/python3.9" -> 12, 9; nothing for other names.
std::optional<int> minor_from_path(std::string_view path);

}  // namespace xpurun::stackdump
