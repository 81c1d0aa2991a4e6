#include "stackdump/ptrace/registers.h"

#include "common/base/strings.h"

#include <cstddef>
#include <sys/ucontext.h>
#include <sys/user.h>

namespace xpurun::stackdump {

Registers from_user_regs(const user_regs_struct& u) {
  Registers out;
  // The order of DWARF's register numbers for x86-64 (System V ABI, figure 3.36), in which unwind tables name
  // registers.
  out.r = {u.rax, u.rdx, u.rcx, u.rbx, u.rsi, u.rdi, u.rbp, u.rsp, u.r8,
           u.r9,  u.r10, u.r11, u.r12, u.r13, u.r14, u.r15, u.rip};
  out.fs_base = u.fs_base;
  out.complete = true;
  return out;
}

std::optional<Registers> from_syscall_text(std::string_view text) {
  const auto words = base::split(base::trim(text), ' ');
  // "-1 0xsp 0xpc" when blocked outside a system call, otherwise number, six arguments, sp, pc.
  if (words.size() != 3 && words.size() != 9) {
    return std::nullopt;
  }
  const auto hex = [](std::string_view word) {
    return word.starts_with("0x") ? base::parse_hex(word.substr(2)) : std::nullopt;
  };
  const auto sp = hex(words[words.size() - 2]);
  const auto pc = hex(words[words.size() - 1]);
  if (!sp || !pc || *sp == 0 || *pc == 0) {
    return std::nullopt;
  }
  Registers out;
  out.r[Registers::kRsp] = *sp;
  out.r[Registers::kRip] = *pc;
  return out;
}

std::optional<Registers> from_ucontext(RemoteMemory& memory, Addr ucontext) {
  const auto context = memory.value<mcontext_t>(ucontext + offsetof(ucontext_t, uc_mcontext));
  if (!context) {
    return std::nullopt;
  }
  static constexpr std::array<int, Registers::kCount> kOrder = {
      REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8,
      REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  Registers out;
  for (size_t i = 0; i < kOrder.size(); ++i) {
    out.r[i] = static_cast<uint64_t>(context->gregs[kOrder[i]]);
  }
  out.complete = true;
  return out;
}

}  // namespace xpurun::stackdump
