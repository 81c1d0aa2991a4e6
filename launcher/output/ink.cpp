#include "launcher/output/ink.h"

#include "common/base/output/terminal.h"

#include <fmt/format.h>

namespace xpurun::launcher {

Ink Ink::for_stream(int fd) {
  return Ink(base::colour_allowed(fd));
}

std::string Ink::paint(Colour colour, std::string_view text) const {
  if (!on_) {
    return std::string(text);
  }
  constexpr int kCodes[] = {32, 33, 31, 1, 2};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(colour)], text);
}

}  // namespace xpurun::launcher
