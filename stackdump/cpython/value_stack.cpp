#include "stackdump/cpython/value_stack.h"

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr Addr kExceptionTable = 40;  // bytes, in a code object
constexpr size_t kMostTable = 1 << 16;
constexpr size_t kDeepest = 256;

// A number of co_exceptiontable: six bits a byte, the first ones first; bit 6: more follow.
size_t take_number(std::string_view table, size_t& at) {
  size_t out = 0;
  for (bool more = true; more && at < table.size(); ++at) {
    const auto byte = static_cast<unsigned char>(table[at]);
    out = out << 6 | (byte & 63U);
    more = (byte & 64U) != 0;
  }
  return out;
}

}  // namespace

ValueStack::Slots ValueStack::kept(const RawFrame& frame) {
  const auto pointer = [&](Addr a) { return memory_.value<uint64_t>(a).value_or(0); };
  const auto code = snapshot_.code.find(frame.code);
  const Addr kinds = pointer(frame.code + o_.code_local_kinds);
  const auto locals = memory_.value<uint64_t>(kinds + o_.bytes_size);
  if (code == snapshot_.code.end() || !locals) {
    return {};
  }
  const auto table =
      read_bytes_object(memory_, pointer(frame.code + kExceptionTable), o_, kMostTable).value_or("");
  return {true, *locals, std::min(kept_depth(table, instruction_index(frame, code->second, o_)), kDeepest)};
}

Addr ValueStack::reference(const RawFrame& frame, uint64_t slot) {
  const Addr word =
      memory_.value<uint64_t>(frame.address + o_.frame_locals + slot * sizeof(Addr)).value_or(0);
  return o_.frame_tagged ? word & ~kTagBits : word;
}

size_t kept_depth(std::string_view table, int64_t index) {
  for (size_t at = 0; at < table.size();) {
    const auto start = static_cast<int64_t>(take_number(table, at));
    const auto length = static_cast<int64_t>(take_number(table, at));
    (void)take_number(table, at);  // where the handler is
    const size_t depth = take_number(table, at) >> 1;
    if (index >= start && index < start + length) {
      return depth;
    }
  }
  return 0;
}

}  // namespace xpurun::stackdump
