#include "launcher/http/token.h"

#include <cstdint>

namespace xpurun::launcher {

bool same_secret(std::string_view a, std::string_view b) {
  // No early exit: the duration must not reveal how many leading characters match.
  uint8_t difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<uint8_t>(a[i] ^ b[i]);
  }
  return difference == 0;
}

}  // namespace xpurun::launcher
