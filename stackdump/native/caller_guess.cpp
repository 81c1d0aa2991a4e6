#include "stackdump/native/caller_guess.h"

#include <algorithm>
#include <array>

namespace xpurun::stackdump {

namespace {

using Code = std::array<uint8_t, 8>;

// Code bytes of an image around an address; zeros where there are none.
Code code_at(ModuleList& modules, Addr a) {
  Code out{};
  const Module* m = modules.find(a);
  if (m != nullptr && m->image != nullptr) {
    const auto bytes = m->image->at_vaddr(a - m->bias);
    std::transform(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), out.size())),
                   out.begin(), [](std::byte b) { return static_cast<uint8_t>(b); });
  }
  return out;
}

bool starts_with(const Code& code, std::initializer_list<uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), code.begin());
}

}  // namespace

std::optional<Registers> guess_caller(const Registers& callee, bool exact, AddrRange stack,
                                      ModuleList& modules, SnapshotMemory& memory) {
  // The caller whose return address lies at `slot`. The byte before that address must lie in code, because a
  // return address follows a call instruction.
  const auto return_to = [&](Addr slot, uint64_t rbp) -> std::optional<Registers> {
    if (!stack.contains(slot) || slot % 8 != 0) {
      return std::nullopt;
    }
    const auto pc = memory.value<uint64_t>(slot);
    if (!pc || *pc == 0 || !modules.is_executable(*pc - 1)) {
      return std::nullopt;
    }
    Registers caller = callee;
    caller.r[Registers::kRip] = *pc;
    caller.r[Registers::kRsp] = slot + 8;
    caller.r[Registers::kRbp] = rbp;
    return caller;
  };
  const uint64_t rbp = callee.r[Registers::kRbp];
  const Addr sp = callee.sp();
  if (exact) {
    if (!modules.is_executable(callee.pc())) {
      return return_to(sp, rbp);  // a call through a null or wild pointer: only the return address was pushed
    }
    const Code code = code_at(modules, callee.pc());
    const bool entry = starts_with(code, {0xf3, 0x0f, 0x1e, 0xfa}) || code[0] == 0x55;  // endbr64, push rbp
    const bool stub =
        starts_with(code, {0xff, 0x25}) || starts_with(code, {0xf2, 0xff, 0x25});  // jmp via GOT
    // Before its first push, a function has only the return address on the stack.
    if (entry || stub) {
      return return_to(sp, rbp);
    }
    // mov rbp, rsp after push rbp: the saved rbp lies at the stack pointer, the return address above.
    if (starts_with(code, {0x48, 0x89, 0xe5}) && code_at(modules, callee.pc() - 1)[0] == 0x55) {
      if (const auto saved = memory.value<uint64_t>(sp)) {
        return return_to(sp + 8, *saved);
      }
    }
  }
  // The chain of frame pointers. Callers' frames lie higher, so a saved value that does not grow is no frame
  // pointer: rbp is an ordinary register in code built with -fomit-frame-pointer.
  if (callee.complete && rbp >= sp && stack.contains(rbp)) {
    if (const auto saved = memory.value<uint64_t>(rbp); saved && (*saved == 0 || *saved > rbp)) {
      return return_to(rbp + 8, *saved);
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::stackdump
