// The pictures of the xpu_timer mode: static, self-contained, roots at the bottom as flamegraph.pl has them.
#include "common/base/strings.h"
#include "report/flamegraph/escape.h"
#include "report/formats/xpu_timer_compat.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr double kWidth = 1600;
constexpr double kPadding = 10;
constexpr double kTop = 40;
constexpr double kRow = 16;
constexpr double kSmallest = 0.1;   // narrower boxes are left out
constexpr double kPerLetter = 6.6;  // pixels, at 11 px font size
constexpr size_t kMaxDepth = 2000;

struct SvgBox {
  std::string_view name;
  size_t first = 0;  // in units of one stack
  size_t count = 0;
  size_t depth = 0;
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  }
  return out;
}

bool is_place(std::string_view name, std::string_view before, std::string_view ending) {
  // Matches ":" + digit before `ending`.
  for (size_t at = name.find(ending); at != std::string_view::npos; at = name.find(ending, at + 1)) {
    const size_t digit = at + ending.size();
    const bool numbered = digit < name.size() && name[digit] >= '0' && name[digit] <= '9';
    if (numbered && (before.empty() || name.substr(0, at).find(before) != std::string_view::npos)) {
      return true;
    }
  }
  return false;
}

std::string_view colour_class(std::string_view name) {
  const std::string any_case = lower(name);
  if (name.find("/torch") != std::string_view::npos || any_case.find("nccl") != std::string::npos) {
    return "green";
  }
  if (name.find("::") != std::string_view::npos) {
    return "yellow";
  }
  if (is_place(any_case, "python", ".c:") || is_place(any_case, "python", ".h:") ||
      is_place(name, "", ".py:")) {
    return "aqua";
  }
  return name.find("State@") != std::string_view::npos ? "purple" : "red";
}

// Neighbouring lines share their common frames.
std::vector<SvgBox> boxes_of(const std::vector<std::vector<std::string_view>>& stacks) {
  std::vector<SvgBox> out;
  std::vector<size_t> open;  // boxes of the current stack, outermost first
  for (size_t i = 0; i < stacks.size(); ++i) {
    size_t same = 0;
    while (same < open.size() && same < stacks[i].size() && out[open[same]].name == stacks[i][same]) {
      ++same;
    }
    open.resize(same);
    for (size_t depth = same; depth < std::min(stacks[i].size(), kMaxDepth); ++depth) {
      open.push_back(out.size());
      out.push_back({.name = stacks[i][depth], .first = i, .depth = depth});
    }
    for (size_t box : open) {
      ++out[box].count;
    }
  }
  return out;
}

}  // namespace

std::string xpu_timer_svg(const std::string& folded, const std::string& title) {
  std::vector<std::vector<std::string_view>> stacks;
  for (std::string_view line : base::split(folded, '\n')) {
    if (const size_t space = line.rfind(' '); space != std::string_view::npos) {
      stacks.push_back(base::split(line.substr(0, space), ';'));
    }
  }
  std::sort(stacks.begin(), stacks.end());
  const std::vector<SvgBox> boxes = boxes_of(stacks);
  size_t depth = 0;
  for (const SvgBox& b : boxes) {
    depth = std::max(depth, b.depth + 1);
  }
  const double height = kTop + static_cast<double>(depth) * kRow + kPadding;
  const double unit = (kWidth - 2 * kPadding) / static_cast<double>(std::max<size_t>(stacks.size(), 1));
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"monospace\" font-size=\"11\">\n"
      "<style>.green{{fill:#6fc46f}}.yellow{{fill:#d9c94e}}.aqua{{fill:#64c1c9}}.purple{{fill:#c08ad6}}"
      ".red{{fill:#e8836f}}rect{{stroke:#fff;stroke-width:.5}}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"24\" text-anchor=\"middle\" font-size=\"17\">{3}</text>\n",
      kWidth, height, kWidth / 2, escape_text(title));
  for (const SvgBox& b : boxes) {
    const double width = static_cast<double>(b.count) * unit;
    if (width < kSmallest) {
      continue;
    }
    const double x = kPadding + static_cast<double>(b.first) * unit;
    const double y = height - kPadding - static_cast<double>(b.depth + 1) * kRow;
    const std::string name = escape_text(base::sanitize(b.name));
    out += fmt::format(
        "<g><title>{} ({} stack{})</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{}\"/>",
        name, b.count, b.count == 1 ? "" : "s", colour_class(b.name), x, y, width, kRow - 1);
    const auto letters = static_cast<size_t>(std::max(0.0, (width - 6) / kPerLetter));
    if (letters >= 3) {
      std::string shown = base::sanitize(b.name);
      if (shown.size() > letters) {
        size_t cut = letters - 2;
        while (cut > 0 && (static_cast<uint8_t>(shown[cut]) & 0xc0) == 0x80) {
          --cut;  // not inside a UTF-8 character
        }
        shown = shown.substr(0, cut) + "..";
      }
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x + 3, y + 11.5, escape_text(shown));
    }
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace xpurun::report
