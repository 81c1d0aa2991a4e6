// RemoteMemory: the memory of another process, live or copied. Every address found in that memory is
// untrusted and may only be followed through this interface; a read of unmapped memory fails without harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace xpurun::stackdump {

using Addr = uint64_t;

struct AddrRange {
  Addr lo = 0;
  Addr hi = 0;  // exclusive

  uint64_t size() const { return hi > lo ? hi - lo : 0; }
  bool contains(Addr a) const { return a >= lo && a < hi; }
  bool operator==(const AddrRange&) const = default;
};

class RemoteMemory {
 public:
  RemoteMemory() = default;
  RemoteMemory(const RemoteMemory&) = delete;
  RemoteMemory& operator=(const RemoteMemory&) = delete;
  virtual ~RemoteMemory() = default;

  // Fills all of `into` or returns false; on false the content of `into` is unspecified.
  virtual bool read(Addr addr, std::span<std::byte> into) = 0;

  template <typename T>
  std::optional<T> value(Addr addr) {
    static_assert(std::is_trivially_copyable_v<T>);
    T out;
    if (!read(addr, std::as_writable_bytes(std::span(&out, 1)))) {
      return std::nullopt;
    }
    return out;
  }
  // All `n` bytes, or nothing. The caller bounds `n`: it is allocated first.
  std::optional<std::string> bytes(Addr addr, size_t n);
  // Up to `limit` bytes before the first NUL; nothing if no NUL is found in readable memory.
  std::optional<std::string> c_string(Addr addr, size_t limit = 4096);
};

// A little-endian field of an object that was read as a whole; empty if it lies outside.
template <typename T>
std::optional<T> field(std::span<const std::byte> object, size_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > object.size() || object.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T out;
  __builtin_memcpy(&out, object.data() + offset, sizeof(T));
  return out;
}

}  // namespace xpurun::stackdump
