#include "stackdump/memory/proc_maps.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr std::string_view kDeleted = " (deleted)";

// The next space-separated word; `rest` is advanced past the word.
std::string_view next_word(std::string_view& rest) {
  const size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
  rest.remove_prefix(begin);
  const size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

// The kernel escapes newline as "\012" and no other character.
std::string unescape(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      out += '\n';
      i += 3;
    } else {
      out += path[i];
    }
  }
  return out;
}

std::optional<Mapping> parse_line(std::string_view line) {
  const std::string_view range = next_word(line);
  const std::string_view perms = next_word(line);
  const auto offset = base::parse_hex(next_word(line));
  const std::string_view device = next_word(line);
  const auto inode = base::parse_int(next_word(line));
  const size_t dash = range.find('-');
  if (dash == std::string_view::npos || perms.size() != 4 || !offset || !inode || *inode < 0) {
    return std::nullopt;
  }
  const auto lo = base::parse_hex(range.substr(0, dash));
  const auto hi = base::parse_hex(range.substr(dash + 1));
  if (!lo || !hi || *hi <= *lo) {
    return std::nullopt;
  }
  Mapping m;
  m.lo = *lo;
  m.hi = *hi;
  m.readable = perms[0] == 'r';
  m.writable = perms[1] == 'w';
  m.executable = perms[2] == 'x';
  m.offset = *offset;
  m.device = std::string(device);
  m.inode = static_cast<uint64_t>(*inode);
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (line.ends_with(kDeleted)) {
    m.deleted = true;
    line.remove_suffix(kDeleted.size());
  }
  m.path = unescape(line);
  return m;
}

}  // namespace

ProcMaps::ProcMaps(std::vector<Mapping> mappings) : mappings_(std::move(mappings)) {
  std::stable_sort(mappings_.begin(), mappings_.end(),
                   [](const Mapping& a, const Mapping& b) { return a.lo < b.lo; });
}

base::Result<ProcMaps> ProcMaps::read(base::Pid pid) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_file(fmt::format("/proc/{}/maps", pid)));
  return parse(text);
}

ProcMaps ProcMaps::parse(std::string_view text) {
  std::vector<Mapping> mappings;
  for (std::string_view line : base::split(text, '\n')) {
    if (auto m = parse_line(line)) {
      mappings.push_back(std::move(*m));
    }
  }
  return ProcMaps(std::move(mappings));
}

std::string to_text(const ProcMaps& maps) {
  std::string out;
  for (const Mapping& m : maps.all()) {
    std::string path;
    for (const char c : m.path) {
      path += c == '\n' ? std::string("\\012") : std::string(1, c);
    }
    out += fmt::format("{:x}-{:x} {}{}{}p {:08x} {} {} {}{}\n", m.lo, m.hi, m.readable ? 'r' : '-',
                       m.writable ? 'w' : '-', m.executable ? 'x' : '-', m.offset, m.device, m.inode, path,
                       m.deleted ? kDeleted : "");
  }
  return out;
}

const Mapping* ProcMaps::find(Addr a) const {
  const auto it = std::upper_bound(mappings_.begin(), mappings_.end(), a,
                                   [](Addr value, const Mapping& m) { return value < m.hi; });
  return it != mappings_.end() && it->lo <= a ? &*it : nullptr;
}

}  // namespace xpurun::stackdump
