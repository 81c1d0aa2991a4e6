// VariableMotion: whether the variables of a thread's Python functions, and those of a script's top level
// that no function names, change from one look to the next. A loop that spends nearly all of its time in one
// call, as in waiting for a GPU, is found at the same instructions again and again; its counter tells that it
// gets on. Only the thread itself binds its variables, so those of one that stands still do not change.
#pragma once

#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/module_variables.h"

#include <unordered_map>

namespace xpurun::stackdump {

class VariableMotion {
 public:
  // A number that differs when a variable is bound to another object, or to another integer. Floats and the
  // functions of the standard library and of torch's that wait are left out: who waits looks at the clock.
  uint64_t fingerprint(RemoteMemory& memory, const PyThread& thread, const Offsets& offsets);

 private:
  enum class Kind : uint8_t { integer, real, other };

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
