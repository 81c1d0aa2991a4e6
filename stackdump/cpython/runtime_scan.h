// The slow way to _PyRuntime, for interpreters that export nothing: stripped static builds, frozen
// applications. Looks through the writable data of the process's images, which takes some 100 ms.
#pragma once

#include "stackdump/cpython/offsets.h"
#include "stackdump/memory/proc_maps.h"

#include <functional>
#include <string>

namespace xpurun::stackdump {

// A place that might be _PyRuntime.
struct RuntimeGuess {
  Addr address = 0;
  int minor = 0;     // 0 if the place describes itself (>= 3.13)
  std::string path;  // of the image whose data it is in
};

// Whether files are mapped that belong to CPython: extension modules, its standard library.
bool has_traces_of_python(const ProcMaps& maps);

// `image`: whose data to look through; empty for all. Offers guesses until `accept` takes one: first tables
// with CPython's own mark, then whatever is followed by pointers that lead to an interpreter, its threads and
// back.
bool scan_for_runtime(const ProcMaps& maps, RemoteMemory& memory, const std::string& image,
                      const std::function<bool(const RuntimeGuess&)>& accept);

}  // namespace xpurun::stackdump
