// Appends plain values to a buffer, and takes them from its front, in the machine's byte order. For files
// that only xpurun on the same kind of machine reads.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace xpurun::base {

template <typename T>
requires std::is_trivially_copyable_v<T>
void append_bytes(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// False if less than one value is left; then nothing is consumed.
template <typename T>
requires std::is_trivially_copyable_v<T>
bool take_bytes(std::string_view& in, T& out) {
  if (in.size() < sizeof out) {
    return false;
  }
  std::memcpy(&out, in.data(), sizeof out);
  in.remove_prefix(sizeof out);
  return true;
}

}  // namespace xpurun::base
