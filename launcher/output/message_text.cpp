#include "launcher/output/message_text.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr std::string_view kPrefix = "xpurun: ";
constexpr size_t kHang = 2;            // further lines, beyond the first
constexpr size_t kFewestColumns = 30;  // narrower terminals break the lines themselves

// Percent-encoding of a path in a URL (RFC 3986, section 2).
std::string url_path(std::string_view path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string out;
  for (const char c : path) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += letter || kPlain.find(c) != std::string_view::npos
               ? std::string(1, c)
               : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::string message_text(std::string_view line, size_t columns, const Ink& ink,
                         std::optional<Ink::Colour> colour) {
  const auto paint = [&](std::string_view text) {
    return colour ? ink.paint(*colour, text) : std::string(text);
  };
  const size_t width = kPrefix.size() + base::display_width(line);
  if (columns == kUnlimited || width <= columns) {
    return fmt::format("{}{}\n", kPrefix, paint(line));
  }
  const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
  const size_t indent = columns < 2 * kFewestColumns ? kHang : kPrefix.size() + blanks + kHang;
  // The first line begins behind the prefix and the blanks. A placeholder word and a blank stand for both.
  const std::string begin(kPrefix.size() + blanks - 1, 'x');
  const std::string wrapped =
      base::wrap(fmt::format("{} {}", begin, line.substr(blanks)), std::max(columns, kFewestColumns), indent);
  std::string out;
  for (const std::string_view part : base::split(wrapped, '\n')) {
    if (out.empty()) {
      const size_t text = std::min(begin.size() + 1, part.size());
      out = fmt::format("{}{}{}\n", kPrefix, std::string(blanks, ' '), paint(part.substr(text)));
    } else {
      const size_t text = std::min(indent, part.size());
      out += fmt::format("{}{}\n", part.substr(0, text), paint(part.substr(text)));
    }
  }
  return out;
}

std::string link_text(std::string_view host, std::string_view path) {
  return path.empty()
             ? std::string()
             : fmt::format("\x1b]8;;file://{}{}\x1b\\{}\x1b]8;;\x1b\\", url_path(host), url_path(path), path);
}

}  // namespace xpurun::launcher
