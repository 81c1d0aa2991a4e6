#include "stackdump/memory/stack_bounds.h"

#include <algorithm>

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
  // The thread's control block lies at the very top of a stack made by pthread_create.
  if (r.fs_base > sp && r.fs_base < range.hi) {
    range.hi = r.fs_base;
  }
  return range.lo < range.hi ? range : AddrRange{};
}

}  // namespace xpurun::stackdump
