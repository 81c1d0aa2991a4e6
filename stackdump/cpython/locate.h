// Finds the CPython runtime in a process: the address of _PyRuntime, the version and the layout. Nothing is
// stopped, and for interpreters that export _PyRuntime (all that can load extension modules) no file is
// opened, so that the supervisor may use it too. Else: the section .PyRuntime or the symbol in the file; else
// the data of the process is looked through.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/cpython/offsets.h"
#include "stackdump/memory/proc_maps.h"

#include <string>

namespace xpurun::stackdump {

struct PythonRuntime {
  Addr address = 0;     // of _PyRuntime
  std::string version;  // "3.12.1", "3.14.0t" if free-threaded
  std::string path;     // of the image that holds it: python or libpython
  Offsets offsets;
};

// What is wrong, if it is no PythonRuntime.
enum class NoPython {
  absent,       // no python or libpython is mapped: the process runs something else
  not_ready,    // mapped, but the interpreter is not initialised (yet, or any more)
  unsupported,  // a version or build whose layout we do not know
};

struct PythonLookup {
  NoPython why = NoPython::absent;
  std::string reason;  // for a note, empty if found
  std::optional<PythonRuntime> runtime;
};

enum class LocateEffort {
  quick,     // exported symbols, and the files of images named after Python
  thorough,  // the file of any program too, and if Python has left traces, all data of the process
};

PythonLookup find_python(base::Pid pid, const ProcMaps& maps, RemoteMemory& memory, LocateEffort effort);

// A mapped file that may hold a runtime.
struct PythonImage {
  Addr image = 0;  // where its ELF header is mapped, 0 if that is unknown
  std::string path;
  bool is_exe = false;
};

// Version and layout of the runtime at an address, with proof that they are right. `minor` is a guess from
// names, if there is one.
PythonLookup identify_python(RemoteMemory& memory, const PythonImage& image, Addr runtime,
                             std::optional<int> minor);

// "/usr/lib/libpython3.12.so.1.0" or "/usr/bin/python3.9" -> 12, 9; nothing for other names.
std::optional<int> minor_from_path(std::string_view path);

}  // namespace xpurun::stackdump
