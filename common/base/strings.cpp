#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

namespace xpurun::base {

namespace {

struct Decoded {
  size_t bytes;  // consumed, at least 1
  bool valid;
  uint32_t code_point;
};

Decoded decode_utf8(std::string_view s) {
  const auto b0 = static_cast<unsigned char>(s[0]);
  if (b0 < 0x80) {
    return {1, true, b0};
  }
  size_t need = 0;
  uint32_t cp = 0;
  if (b0 >= 0xC2 && b0 <= 0xDF) {
    need = 1;
    cp = b0 & 0x1Fu;
  } else if ((b0 & 0xF0u) == 0xE0) {
    need = 2;
    cp = b0 & 0x0Fu;
  } else if (b0 >= 0xF0 && b0 <= 0xF4) {
    need = 3;
    cp = b0 & 0x07u;
  } else {
    return {1, false, 0};
  }
  if (s.size() <= need) {
    return {1, false, 0};
  }
  for (size_t i = 1; i <= need; ++i) {
    const auto b = static_cast<unsigned char>(s[i]);
    if ((b & 0xC0u) != 0x80) {
      return {1, false, 0};
    }
    cp = (cp << 6) | (b & 0x3Fu);
  }
  const bool overlong = (need == 2 && cp < 0x800) || (need == 3 && cp < 0x10000);
  const bool surrogate = cp >= 0xD800 && cp <= 0xDFFF;
  if (overlong || surrogate || cp > 0x10FFFF) {
    return {1, false, 0};
  }
  return {need + 1, true, cp};
}

bool is_wide(uint32_t cp) {
  return (cp >= 0x1100 && cp <= 0x115F) || (cp >= 0x2E80 && cp <= 0xA4CF) || (cp >= 0xAC00 && cp <= 0xD7A3) ||
         (cp >= 0xF900 && cp <= 0xFAFF) || (cp >= 0xFE30 && cp <= 0xFE6F) || (cp >= 0xFF00 && cp <= 0xFF60) ||
         (cp >= 0xFFE0 && cp <= 0xFFE6) || (cp >= 0x1F300 && cp <= 0x1FAFF) ||
         (cp >= 0x20000 && cp <= 0x3FFFD);
}

bool is_control(uint32_t cp) {
  return cp < 0x20 || (cp >= 0x7F && cp < 0xA0);
}

// Characters that change what other characters look like, or that cannot be seen: with U+202E a terminal
// shows "txt.exe" for "exe.txt". Unicode's Bidi_Control and Default_Ignorable_Code_Point, less the variation
// selectors, which only choose between pictures of one character.
bool is_deceptive(uint32_t cp) {
  return cp == 0xAD || cp == 0x61C || cp == 0x34F || cp == 0x115F || cp == 0x1160 || cp == 0x180E ||
         (cp >= 0x200B && cp <= 0x200F) || (cp >= 0x2028 && cp <= 0x202E) || (cp >= 0x2060 && cp <= 0x206F) ||
         cp == 0x3164 || cp == 0xFEFF || (cp >= 0xFFF9 && cp <= 0xFFFB) || (cp >= 0xE0000 && cp <= 0xE007F);
}

size_t width_of(const Decoded& d) {
  if (!d.valid) {
    return 1;
  }
  if (is_control(d.code_point)) {
    return 0;
  }
  const bool combining = d.code_point >= 0x300 && d.code_point <= 0x36F;
  return combining ? 0 : (is_wide(d.code_point) ? 2 : 1);
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char sep) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t pos = text.find(sep);
    out.push_back(text.substr(0, pos));
    if (pos == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(pos + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string join(const std::vector<std::string>& parts, std::string_view sep) {
  return fmt::format("{}", fmt::join(parts, sep));
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t v = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (err != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return v;
}

std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t v = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v, 16);
  if (err != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return v;
}

std::optional<double> parse_duration_s(std::string_view text) {
  double v = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (err != std::errc{} || !std::isfinite(v) || v < 0 || text.starts_with('-')) {
    return std::nullopt;
  }
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit.empty() || unit == "s") {
    return v;
  }
  if (unit == "ms") {
    return v / 1000;
  }
  if (unit == "m" || unit == "min") {
    return v * 60;
  }
  if (unit == "h") {
    return v * 3600;
  }
  if (unit == "d") {
    return v * 86400;
  }
  return std::nullopt;
}

std::optional<uint64_t> parse_size(std::string_view text) {
  constexpr double kMost = 1e18;
  constexpr std::string_view kUnits = "KMGT";
  double v = 0;
  const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (err != std::errc{} || !std::isfinite(v) || text.starts_with('-')) {
    return std::nullopt;
  }
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (!unit.empty()) {
    const size_t power = kUnits.find(unit.front());
    unit.remove_prefix(1);
    if (power == std::string_view::npos || !(unit.empty() || unit == "B" || unit == "iB")) {
      return std::nullopt;
    }
    v *= std::pow(1024.0, static_cast<double>(power + 1));
  }
  return v <= kMost ? std::optional(static_cast<uint64_t>(v)) : std::nullopt;
}

std::string human_size(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto v = static_cast<double>(bytes);
  size_t unit = 0;
  for (; v >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) {
    v /= 1024;
  }
  return unit == 0 || v >= 99.95 ? fmt::format("{:.0f} {}", v, kUnits[unit])
                                 : fmt::format("{:.1f} {}", v, kUnits[unit]);
}

std::string human_duration(double seconds) {
  constexpr double kMost = 1e12;  // numbers out of files may be anything
  seconds = std::isnan(seconds) ? 0 : std::clamp(seconds, -kMost, kMost);
  if (seconds < 10) {
    return fmt::format("{:.1f} s", seconds);
  }
  const auto s = static_cast<int64_t>(std::llround(seconds));
  if (s < 120) {
    return fmt::format("{} s", s);
  }
  if (s < 3600) {
    return fmt::format("{}m{:02}s", s / 60, s % 60);
  }
  return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
}

namespace {
std::string format_utc(int64_t wall_ns, const char* format) {
  const auto t = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm parts{};
  gmtime_r(&t, &parts);
  char buf[40];
  const size_t n = strftime(buf, sizeof buf, format, &parts);
  return {buf, n};
}
}  // namespace

std::string utc_iso8601(int64_t wall_ns) {
  return format_utc(wall_ns, "%Y-%m-%dT%H:%M:%SZ");
}
std::string utc_compact(int64_t wall_ns) {
  return format_utc(wall_ns, "%Y%m%dT%H%M%SZ");
}

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Decoded d = decode_utf8(text);
    columns += width_of(d);
    text.remove_prefix(d.bytes);
  }
  return columns;
}

std::string elide_middle(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) {
    return std::string(text);
  }
  if (columns == 0) {
    return {};
  }
  const size_t head_columns = (columns - 1) / 2;
  const size_t tail_columns = columns - 1 - head_columns;
  size_t head = 0;
  for (size_t used = 0; head < text.size();) {
    const Decoded d = decode_utf8(text.substr(head));
    if (used + width_of(d) > head_columns) {
      break;
    }
    used += width_of(d);
    head += d.bytes;
  }
  size_t tail = 0;
  for (size_t left = display_width(text); left > tail_columns;) {
    const Decoded d = decode_utf8(text.substr(tail));
    left -= width_of(d);
    tail += d.bytes;
  }
  return fmt::format("{}…{}", text.substr(0, head), text.substr(tail));
}

std::string wrap(std::string_view text, size_t columns, size_t indent) {
  std::string out;
  size_t used = 0;
  bool first_on_line = true;
  for (std::string_view word : split(text, ' ')) {
    if (word.empty()) {
      continue;
    }
    const size_t w = display_width(word);
    if (!first_on_line && used + 1 + w > columns) {
      out += '\n';
      out.append(indent, ' ');
      used = indent;
      first_on_line = true;
    }
    if (!first_on_line) {
      out += ' ';
      ++used;
    }
    out += word;
    used += w;
    first_on_line = false;
  }
  return out;
}

std::string sanitize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded d = decode_utf8(text);
    if (!d.valid) {
      out += "\xEF\xBF\xBD";
    } else if (d.code_point == '\n' || d.code_point == '\t' || d.code_point == '\r') {
      out += ' ';
    } else if (is_control(d.code_point) || is_deceptive(d.code_point)) {
      out += '?';
    } else {
      out += text.substr(0, d.bytes);
    }
    text.remove_prefix(d.bytes);
  }
  return out;
}

std::string sanitize_lines(std::string_view text) {
  std::string out;
  bool first = true;
  for (const std::string_view line : split(text, '\n')) {
    out += first ? "" : "\n";
    out += sanitize(line);
    first = false;
  }
  return out;
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
  if (!word.empty() && word.find_first_not_of(kSafe) == std::string_view::npos) {
    return std::string(word);
  }
  std::string out = "'";
  for (char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string_view base_name(std::string_view path) {
  const size_t pos = path.rfind('/');
  return pos == std::string_view::npos ? path : path.substr(pos + 1);
}

}  // namespace xpurun::base
