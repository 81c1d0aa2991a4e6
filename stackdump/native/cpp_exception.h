// The C++ exception that a thread has thrown and not got rid of: what std::terminate() was called for, or
// what a catch block that failed was handling. Read from outside, out of the structures of the Itanium C++
// ABI that libstdc++ and libc++abi share: no function of the process is called, and a runtime that is linked
// statically makes no difference.
#pragma once

#include "stackdump/memory/remote_memory.h"

#include <optional>
#include <string>

namespace xpurun::stackdump {

struct CppException {
  std::string type;     // "std::runtime_error"
  std::string message;  // what what() says, or the text that was thrown; empty if it cannot be known
};

// `stack` is the used part of the thread's stack, from its stack pointer. The innermost exception whose
// header the stack points to; exceptions that a catch block has ended with are not found.
std::optional<CppException> find_cpp_exception(RemoteMemory& memory, AddrRange stack);

}  // namespace xpurun::stackdump
