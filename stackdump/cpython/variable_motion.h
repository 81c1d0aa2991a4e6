// VariableMotion: whether the variables of a thread's Python functions, and those of a script's top level
// that no function names, change from one poll to the next. A loop that spends nearly all of its time in one
// call, for example waiting for a GPU, is found at the same instructions in every poll; its counter shows the
// progress. Only the thread itself binds its variables, so the variables of a stuck thread do not change.
#pragma once

#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/module_variables.h"

#include <unordered_map>

namespace xpurun::stackdump {

class VariableMotion {
 public:
  // A fingerprint that changes when a variable is bound to another object or another integer. Floats,
  // exceptions, and the waiting functions of the standard library and of torch are left out: a waiting loop
  // reads the clock, and one that fails again and again keeps the latest exception.
  uint64_t fingerprint(RemoteMemory& memory, const PyThread& thread, const Offsets& offsets);

 private:
  enum class Kind : uint8_t { integer, left_out, other };

  struct Code {
    bool is_left_out = true;
    uint32_t slots = 0;
  };

  Code code_at(RemoteMemory& memory, Addr code, const Offsets& offsets);
  Kind kind_of(RemoteMemory& memory, Addr type, const Offsets& offsets);
  uint64_t value_of(RemoteMemory& memory, uint64_t slot, const Offsets& offsets);

  ModuleVariables modules_;
  std::unordered_map<Addr, Code> codes_;
  std::unordered_map<Addr, Kind> kinds_;  // by type
};

}  // namespace xpurun::stackdump
