// The C and C++ frames of one thread from copied registers and the copied stack. Nothing that can change is
// read from the process: code and unwind tables come from its ELF images, all other data from the copy. The
// engine of NativeUnwinder is libunwind's DWARF interpreter with xpurun's own accessors and table look-up;
// stackdump/libdw/ has another engine.
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

  // The address to look up: a return address may lie after the end of its function, if the last instruction
  // is a call that never returns.
  Addr lookup_pc() const { return exact || pc == 0 ? pc : pc - 1; }
};

struct NativeStack {
  std::vector<NativeFrame> frames;  // innermost first
  std::string stopped;              // why the outermost frame was not reached; empty if it was reached
};

// The interface of all engines.
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
