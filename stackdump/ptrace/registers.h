// Registers of one stopped thread. ptrace and a signal context give all registers; /proc/TID/syscall gives pc
// and sp only.
#pragma once

#include "stackdump/memory/remote_memory.h"

#include <array>
#include <optional>
#include <string_view>

struct user_regs_struct;

namespace xpurun::stackdump {

struct Registers {
  // DWARF numbering of x86-64: rax rdx rcx rbx rsi rdi rbp rsp r8..r15 rip.
  static constexpr size_t kRbx = 3;
  static constexpr size_t kRbp = 6;
  static constexpr size_t kRsp = 7;
  static constexpr size_t kRip = 16;
  static constexpr size_t kCount = 17;

  std::array<uint64_t, kCount> r{};
  uint64_t fs_base = 0;   // address of the thread's control block == pthread_self(); 0 if unknown
  bool complete = false;  // false: only pc and sp are known

  Addr pc() const { return r[kRip]; }
  Addr sp() const { return r[kRsp]; }
};

Registers from_user_regs(const user_regs_struct& u);

// pc and sp from the text of /proc/PID/task/TID/syscall ("7 0x1 ... 0xsp 0xpc"); nothing if "running".
std::optional<Registers> from_syscall_text(std::string_view text);

// The interrupted state from a ucontext_t in the target's memory.
std::optional<Registers> from_ucontext(RemoteMemory& memory, Addr ucontext);

}  // namespace xpurun::stackdump
