#include "launcher/machine/memory/memory_maps.h"

#include "common/base/strings.h"
#include "launcher/machine/host/blank_words.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kFieldsBeforePath = 5;  // "7f00-7f10 rw-s 00000000 00:18 4711 /dev/shm/psm_1"
constexpr std::string_view kDeleted = " (deleted)";

// False: the line is a field of the mapping before.
bool read_header(std::string_view line, MemoryMap& map) {
  const size_t dash = line.find('-');
  const size_t space = line.find(' ');
  if (dash == std::string_view::npos || space == std::string_view::npos || dash > space) {
    return false;
  }
  const auto begin = base::parse_hex(line.substr(0, dash));
  const auto end = base::parse_hex(line.substr(dash + 1, space - dash - 1));
  if (!begin || !end || line.size() < space + 5) {
    return false;
  }
  map = {.begin = *begin, .end = *end, .shared = line[space + 4] == 's'};
  size_t at = 0;
  for (size_t i = 0; i < kFieldsBeforePath && at != std::string_view::npos; ++i) {
    at = line.find(' ', line.find_first_not_of(' ', at));
  }
  std::string_view path = at == std::string_view::npos ? std::string_view() : base::trim(line.substr(at));
  if (path.ends_with(kDeleted)) {
    path.remove_suffix(kDeleted.size());
  }
  map.path = std::string(path);
  return true;
}

void read_field(std::string_view line, MemoryMap& map) {
  if (line.ends_with(" 0 kB")) {
    return;  // most of them
  }
  const auto words = blank_words(line);
  const auto kib = words.size() >= 2 ? base::parse_int(words[1]) : std::nullopt;
  if (!kib || *kib <= 0) {
    return;
  }
  const int64_t bytes = *kib * 1024;
  const std::string_view name = words[0];
  map.resident += name == "Rss:" ? bytes : 0;
  map.part += name == "Pss:" ? bytes : 0;
  map.own_changed += name == "Private_Dirty:" ? bytes : 0;
  map.in_common += name == "Shared_Dirty:" || name == "Shared_Clean:" ? bytes : 0;
  map.changed += name == "Shared_Dirty:" || name == "Private_Dirty:" ? bytes : 0;
  map.no_file += name == "Anonymous:" ? bytes : 0;
}

}  // namespace

std::vector<MemoryMap> memory_maps_in(std::string_view smaps) {
  std::vector<MemoryMap> out;
  for (const std::string_view line : base::split(smaps, '\n')) {
    // A field begins with a capital letter, an address does not.
    if (line.empty() || (line.front() >= 'A' && line.front() <= 'Z')) {
      if (!out.empty()) {
        read_field(line, out.back());
      }
    } else if (MemoryMap map; read_header(line, map)) {
      out.push_back(std::move(map));
    }
  }
  return out;
}

std::string common_name(std::string_view path) {
  const size_t name = path.rfind('/') + 1;
  const size_t cut = path.find_first_of("_-0123456789", name);
  // A name of numbers alone says nothing.
  return cut == std::string_view::npos || cut == name ? std::string(path)
                                                      : std::string(path.substr(0, cut + 1)) + "*";
}

}  // namespace xpurun::launcher
