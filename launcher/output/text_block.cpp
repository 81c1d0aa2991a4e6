#include "launcher/output/text_block.h"

#include "common/base/output/terminal.h"
#include "common/base/strings.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr size_t kNarrow = 60;  // columns; on narrower terminals, explanations go below their terms
constexpr size_t kTermIndent = 2;
constexpr size_t kUnderIndent = 8;  // indent of such explanations
}  // namespace

std::string text_block(std::string_view text, size_t columns, size_t indent) {
  const size_t width = columns > indent ? columns - indent : 1;
  const std::string wrapped = base::wrap(text, width, 0);
  std::string out;
  for (std::string_view line : base::split(wrapped, '\n')) {
    out.append(indent, ' ');
    out += line;
    out += '\n';
  }
  return out;
}

std::string definition(std::string_view term, std::string_view text, size_t columns, size_t column) {
  std::string out(kTermIndent, ' ');
  out += term;
  if (columns < kNarrow) {
    return out + '\n' + text_block(text, columns, kUnderIndent);
  }
  const std::string block = text_block(text, columns, column);
  const size_t used = base::display_width(out);
  if (used + 2 > column) {
    return out + '\n' + block;
  }
  return out + block.substr(used);
}

std::string pad_end(std::string_view text, size_t columns) {
  const size_t used = base::display_width(text);
  return std::string(text) + std::string(used < columns ? columns - used : 0, ' ');
}

std::string pad_start(std::string_view text, size_t columns) {
  const size_t used = base::display_width(text);
  return std::string(used < columns ? columns - used : 0, ' ') + std::string(text);
}

std::string cut_end(std::string_view text, size_t columns) {
  constexpr std::string_view kDots = "...";
  if (base::display_width(text) <= columns) {
    return std::string(text);
  }
  const size_t room = columns > kDots.size() ? columns - kDots.size() : 0;
  size_t end = 0;
  for (size_t next = 0; next < text.size(); end = next) {
    // Whole characters: continuation bytes stay with their first.
    next = end + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) {
      ++next;
    }
    if (base::display_width(text.substr(0, next)) > room) {
      break;
    }
  }
  return std::string(text.substr(0, end)) + std::string(kDots.substr(0, columns));
}

size_t help_columns(int fd) {
  return std::clamp<size_t>(base::terminal_columns(fd), 40, 100);
}

}  // namespace xpurun::launcher
