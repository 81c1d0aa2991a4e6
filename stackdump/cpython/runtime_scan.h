// The slow search for _PyRuntime, for interpreters without exported symbols: stripped static builds, frozen
// applications. Scans the writable data of the images of the process, which takes about 100 ms.
#pragma once

#include "stackdump/cpython/offsets/offsets.h"
#include "stackdump/memory/proc_maps.h"

#include <functional>
#include <string>

namespace xpurun::stackdump {

// A candidate address of _PyRuntime.
struct RuntimeGuess {
  Addr address = 0;
  int minor = 0;     // 0 if the runtime describes itself (>= 3.13)
  std::string path;  // the image whose data contains the candidate
};

// Whether files of CPython are mapped: extension modules, its standard library.
bool has_traces_of_python(const ProcMaps& maps);

// `image`: the image whose data is scanned; empty for all. Offers candidates until `accept` takes one: first
// tables with CPython's own cookie, then places whose pointers lead to an interpreter, its threads and back.
bool scan_for_runtime(const ProcMaps& maps, RemoteMemory& memory, const std::string& image,
                      const std::function<bool(const RuntimeGuess&)>& accept);

}  // namespace xpurun::stackdump
