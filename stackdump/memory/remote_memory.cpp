#include "stackdump/memory/remote_memory.h"

#include <algorithm>

namespace xpurun::stackdump {

std::optional<std::string> RemoteMemory::bytes(Addr addr, size_t n) {
  std::string out(n, '\0');
  if (n > 0 && !read(addr, std::as_writable_bytes(std::span(out)))) {
    return std::nullopt;
  }
  return out;
}

std::optional<std::string> RemoteMemory::c_string(Addr addr, size_t limit) {
  std::string out;
  while (out.size() < limit) {
    // No read crosses a page boundary: the string may end directly before an unmapped page.
    const size_t step = std::min<size_t>({64, limit - out.size(), 4096 - (addr + out.size()) % 4096});
    const auto part = bytes(addr + out.size(), step);
    if (!part) {
      return std::nullopt;
    }
    const size_t nul = part->find('\0');
    out.append(*part, 0, nul);
    if (nul != std::string::npos) {
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::stackdump
