#include "stackdump/ptrace/stack_bounds.h"

#include <algorithm>
#include <sys/ucontext.h>

namespace xpurun::stackdump {

AddrRange stack_range(const Registers& r, const ProcMaps& maps) {
  constexpr uint64_t kRedZone = 128;  // below sp, System V ABI
  const Addr sp = r.sp();
  const Mapping* mapping = maps.find(sp);
  Addr lo = sp - kRedZone;
  if (mapping == nullptr || !mapping->readable) {
    mapping = maps.find(sp + 4096);  // an overflowed stack points into its guard page
    lo = mapping == nullptr ? 0 : mapping->lo;
  }
  if (mapping == nullptr || !mapping->readable || sp < kRedZone) {
    return {};
  }
  AddrRange range{std::max(lo, mapping->lo), mapping->hi};
  if (mapping->hi - sp > kMaxStackCopy) {
    range.hi = sp + kMaxStackCopy;
  }
  // pthread_create (glibc) places the thread control block at the top of the thread's stack.
  if (r.fs_base > sp && r.fs_base < range.hi) {
    range.hi = r.fs_base;
  }
  return range.lo < range.hi ? range : AddrRange{};
}

AddrRange interrupted_stack(RemoteMemory& memory, const Registers& r, AddrRange copied,
                            const ProcMaps& maps) {
  constexpr uint64_t kMaxAlternate = uint64_t{16} << 20;
  const Mapping* own = maps.find(r.sp());
  if (own == nullptr || own->path == "[stack]" || (r.fs_base > r.sp() && r.fs_base <= own->hi)) {
    return {};  // an ordinary stack
  }
  // uc_stack in the signal frame describes the stack that holds the frame itself.
  for (Addr at = (r.sp() + 7) & ~Addr{7}; at < copied.hi; at += 8) {
    const auto stack = memory.value<stack_t>(at);
    if (!stack) {
      break;
    }
    const auto lo = reinterpret_cast<Addr>(stack->ss_sp);
    if (lo == 0 || at < lo || at - lo >= stack->ss_size || stack->ss_size > kMaxAlternate || r.sp() < lo) {
      continue;
    }
    const auto context = memory.value<mcontext_t>(at + sizeof(stack_t));
    if (!context) {
      break;
    }
    Registers before;
    before.r[Registers::kRsp] = static_cast<uint64_t>(context->gregs[REG_RSP]);
    before.fs_base = r.fs_base;
    const Mapping* code = maps.find(static_cast<Addr>(context->gregs[REG_RIP]));
    const bool elsewhere = before.sp() < lo || before.sp() - lo >= stack->ss_size;
    if (code != nullptr && code->executable && elsewhere) {
      return stack_range(before, maps);
    }
  }
  return {};
}

}  // namespace xpurun::stackdump
