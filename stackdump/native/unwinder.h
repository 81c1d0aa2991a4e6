// The C and C++ frames of one thread from copied registers and copied stack. Nothing is read from the process
// that can change: code and unwind tables come from its ELF images, the rest from the copy. NativeUnwinder's
// engine is libunwind's DWARF interpreter behind our own accessors, with our own look-up of tables; another
// one is in stackdump/libdw/.
#pragma once

#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/native/modules.h"
#include "stackdump/ptrace/registers.h"

#include <memory>
#include <string>

namespace xpurun::stackdump {

struct NativeFrame {
  Addr pc = 0;
  Addr sp = 0;         // lowest address of the frame
  Addr cfa = 0;        // first address above it; 0 if unknown (outermost)
  bool exact = false;  // pc is the instruction being executed, not a return address

  // The address that belongs to the function: a call may be the last instruction of one that never returns.
  Addr lookup_pc() const { return exact || pc == 0 ? pc : pc - 1; }
};

struct NativeStack {
  std::vector<NativeFrame> frames;  // innermost first
  std::string stopped;              // why the outermost frame was not reached; empty if it was
};

// What every engine does.
class Unwinder {
 public:
  static constexpr size_t kMaxFrames = 512;

  Unwinder() = default;
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;
  virtual ~Unwinder() = default;

  // `stack` is the copied part of the thread's stack.
  virtual NativeStack unwind(const Registers& registers, AddrRange stack) = 0;
};

class NativeUnwinder : public Unwinder {
 public:
  NativeUnwinder(ModuleList& modules, SnapshotMemory& memory);
  ~NativeUnwinder() override;

  NativeStack unwind(const Registers& registers, AddrRange stack) override;

 private:
  struct Engine;
  std::unique_ptr<Engine> engine_;
};

}  // namespace xpurun::stackdump
