// Decides from the constructor whether the supervisor needs to know this process and its death. Other
// processes of a job (shells, coreutils, compilers) are left alone.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

enum class ProcessKind : uint8_t {
  other,
  python,  // a CPython interpreter is linked in; the supervisor decides whether the process is a rank
  rank,    // not Python, but a rank of a distributed job by its environment; no program that a rank starts
};

ProcessKind classify_this_process();

struct ProgramPath {
  char text[4096];
};
// The last component of the running program's path, stored in `path`; empty if unreadable.
const char* program_name(ProgramPath& path);

}  // namespace xpurun::preload
