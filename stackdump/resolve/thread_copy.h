// ThreadCopy: the data that a dump copied from one thread while the process was stopped.
#pragma once

#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/cpp_exception.h"
#include "stackdump/native/kernel_view.h"
#include "stackdump/ptrace/registers.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::stackdump {

struct ThreadCopy {
  base::Tid tid = 0;
  base::Tid inner_tid = 0;  // in the process's own PID namespace; 0: not looked up
  KernelView kernel;
  std::optional<Registers> registers;
  std::string no_registers;               // why there are none
  AddrRange stack;                        // the copied part
  std::vector<std::string> kernel_stack;  // only of a thread that could not be stopped
  bool crashed = false;
  std::optional<CppException> cpp_exception;  // only of a crashed thread: the exception that it had thrown
};

}  // namespace xpurun::stackdump
