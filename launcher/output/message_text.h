// A message of the supervisor as text for a stream. Pure.
#pragma once

#include "launcher/output/ink.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

inline constexpr size_t kUnlimited = 0;  // columns of a stream that is no terminal

// "xpurun: LINE" and a newline. If the text is wider than `columns`, the text is wrapped between words, and
// the further lines are indented, more than the first. `line`: safe for terminals.
std::string message_text(std::string_view line, size_t columns, const Ink& ink,
                         std::optional<Ink::Colour> colour);

// The absolute path as a link of terminals (OSC 8); terminals without links show the path alone. Empty path:
// empty. Source: "Hyperlinks in Terminal Emulators", the de facto standard of VTE, kitty, iTerm2 and others.
std::string link_text(std::string_view host, std::string_view path);

}  // namespace xpurun::launcher
