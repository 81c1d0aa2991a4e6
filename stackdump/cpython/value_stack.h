// The value stack of a Python frame: what its expressions and `with` blocks keep. CPython 3.11 to 3.15.
#pragma once

#include "stackdump/cpython/frames.h"

#include <string_view>

namespace xpurun::stackdump {

class ValueStack {
 public:
  ValueStack(RemoteMemory& memory, const Offsets& offsets, const PySnapshot& snapshot)
      : memory_(memory), o_(offsets), snapshot_(snapshot) {}

  struct Slots {
    bool known = false;
    uint64_t first = 0;  // of the value stack
    size_t depth = 0;    // that the handler of the current instruction keeps
  };
  Slots kept(const RawFrame& frame);
  // A reference in a frame, without its tags.
  Addr reference(const RawFrame& frame, uint64_t slot);

 private:
  RemoteMemory& memory_;
  const Offsets& o_;
  const PySnapshot& snapshot_;
};

// The size of the value stack that the handler of an instruction keeps, from co_exceptiontable; 0 without a
// handler. `index` counts instructions of two bytes. Public for tests.
size_t kept_depth(std::string_view table, int64_t index);

}  // namespace xpurun::stackdump
