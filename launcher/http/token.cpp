#include "launcher/http/token.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <sys/random.h>

namespace xpurun::launcher {

base::Result<std::string> make_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return base::fail_errno("cannot get random bytes for a token");
  }
  std::string out;
  for (const unsigned char byte : bytes) {
    out += fmt::format("{:02x}", byte);
  }
  return out;
}

bool same_secret(std::string_view a, std::string_view b) {
  // No early exit: the duration must not reveal how many leading characters match.
  uint8_t difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference |= static_cast<uint8_t>(a[i] ^ b[i]);
  }
  return difference == 0;
}

}  // namespace xpurun::launcher
