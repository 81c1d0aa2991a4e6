// The C++ exception that a thread has thrown and that is still alive: the reason of a std::terminate(), or
// the exception handled by a catch block that failed. Read from outside, from the structures of the Itanium
// C++ ABI that libstdc++ and libc++abi share. No function of the process is called, so a statically linked
// runtime works too.
#pragma once

#include "stackdump/memory/proc_maps.h"
#include "stackdump/memory/remote_memory.h"

#include <optional>
#include <string>

namespace xpurun::stackdump {

struct CppException {
  std::string type;     // "std::runtime_error"
  std::string message;  // result of what(), or the thrown text; empty if unknown
};

// `stack` is the used part of the thread's stack, from its stack pointer on. Finds the innermost exception
// whose header the stack points to, but not exceptions that a catch block has finished.
std::optional<CppException> find_cpp_exception(RemoteMemory& memory, AddrRange stack);

// What the C library has printed before it called abort(), as the type: "Assertion `ok' failed", "free():
// invalid pointer". glibc keeps the text for debuggers.
std::optional<CppException> find_abort_message(RemoteMemory& memory, const ProcMaps& maps);

}  // namespace xpurun::stackdump
