#include "common/base/strings.h"

#include "common/base/line_breaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <utf8proc.h>

namespace xpurun::base {

namespace {

struct Decoded {
  size_t bytes;  // consumed, at least 1
  bool valid;
  int32_t code_point;
};

// A byte that is not valid UTF-8 counts as one character.
Decoded decode_utf8(std::string_view s) {
  constexpr size_t kLongest = 4;
  int32_t code_point = -1;
  const auto bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(s.data()),
                       static_cast<utf8proc_ssize_t>(std::min(s.size(), kLongest)), &code_point);
  return bytes > 0 ? Decoded{static_cast<size_t>(bytes), true, code_point} : Decoded{1, false, -1};
}

bool is_control(int32_t cp) {
  return utf8proc_category(cp) == UTF8PROC_CATEGORY_CC;
}

// Variation selectors only choose between forms of one character.
bool is_variation_selector(int32_t cp) {
  return (cp >= 0x180B && cp <= 0x180F && cp != 0x180E) || (cp >= 0xFE00 && cp <= 0xFE0F) ||
         (cp >= 0xE0100 && cp <= 0xE01EF);
}

// Invisible characters, and characters that change the look or order of others: with U+202E a terminal shows
// "txt.exe" for "exe.txt".
bool is_deceptive(int32_t cp) {
  switch (utf8proc_category(cp)) {
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return true;
    default:
      return (utf8proc_get_property(cp)->ignorable != 0 || (cp >= 0xFFF9 && cp <= 0xFFFB) || cp == 0xE0000) &&
             !is_variation_selector(cp);
  }
}

size_t width_of(const Decoded& d) {
  if (!d.valid) {
    return 1;
  }
  return is_control(d.code_point) ? 0 : static_cast<size_t>(utf8proc_charwidth(d.code_point));
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
  if (unit == "us") {
    return v / 1e6;
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
  // "{:.1f}" would show 1023.95 as 1024.0, and 99.95 as 100.0.
  for (; v >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) {
    v /= 1024;
  }
  return unit == 0 || v >= 99.95 ? fmt::format("{:.0f} {}", v, kUnits[unit])
                                 : fmt::format("{:.1f} {}", v, kUnits[unit]);
}

std::string human_duration(double seconds) {
  constexpr double kMost = 1e12;  // numbers from files may be anything
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
    bool blank = !first_on_line;
    for (const std::string_view part : unbreakable_parts(word)) {
      const size_t w = display_width(part);
      if (!first_on_line && used + (blank ? 1 : 0) + w > columns) {
        out += '\n';
        out.append(indent, ' ');
        used = indent;
        blank = false;
      }
      if (blank) {
        out += ' ';
        ++used;
      }
      out += part;
      used += w;
      first_on_line = false;
      blank = false;
    }
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
