// Small text routines without knowledge of the text's meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::base {

std::vector<std::string_view> split(std::string_view text, char sep);
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view sep);

// Parses the whole string as a number; empty on trailing characters or overflow.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<uint64_t> parse_hex(std::string_view text);
// "300", "300s", "5m", "1.5h", "2d", "250ms" to seconds. Empty for anything else, including negative values.
std::optional<double> parse_duration_s(std::string_view text);

// "4096", "64K", "500M", "1.5G", "1T" (powers of 1024) to bytes.
std::optional<uint64_t> parse_size(std::string_view text);

// "512 B", "4.2 MiB", "10 GiB", for tables and sentences.
std::string human_size(uint64_t bytes);
// "0.4 s", "12 s", "3m05s", "1h02m", for sentences.
std::string human_duration(double seconds);
// "2026-11-21T02:15:00Z"
std::string utc_iso8601(int64_t wall_ns);
// "20261121T021500Z", for file names.
std::string utc_compact(int64_t wall_ns);

// Terminal columns of UTF-8 text; control characters count 0, invalid bytes 1.
size_t display_width(std::string_view text);
// Shortens to `columns` by cutting out the middle ("abc…xyz").
std::string elide_middle(std::string_view text, size_t columns);
// Breaks at spaces into lines of at most `columns`; continuation lines start with `indent` spaces.
std::string wrap(std::string_view text, size_t columns, size_t indent);

// Replaces control characters, escapes, characters that reorder or hide text (bidirectional controls,
// zero-width characters) and invalid UTF-8, so that hostile names cannot control a terminal, imitate other
// names or break JSON. Newlines become spaces.
std::string sanitize(std::string_view text);
// sanitize() per line: keeps line breaks.
std::string sanitize_lines(std::string_view text);

// Quotes for a POSIX shell only where needed, so that a printed command can be pasted.
std::string shell_quote(std::string_view word);

std::string_view base_name(std::string_view path);

}  // namespace xpurun::base
