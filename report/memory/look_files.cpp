#include "report/memory/look_files.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLargestLook = size_t{1} << 20;

void read_rank(const fs::path& dir, base::Rank rank, LookFiles& out) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, ec)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(model::kMemoryFilePrefix) || !name.ends_with(".json")) {
      continue;
    }
    const auto text = base::read_regular_file(entry.path().string(), kLargestLook);
    auto look = text ? model::memory_look_from_json(*text) : base::fail(text.error());
    if (look) {
      look->rank = rank;
      out.looks.push_back(std::move(*look));
    } else {
      out.notes.push_back(base::to_line(base::Error(look.error()).context(entry.path().string())));
    }
  }
}

}  // namespace

LookFiles read_looks(const std::vector<std::string>& run_dirs) {
  LookFiles out;
  for (const std::string& run : run_dirs) {
    std::error_code ec;
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(run) / "ranks", ec)) {
      const auto rank = base::parse_int(entry.path().filename().string());
      if (rank && *rank >= 0 && *rank < base::kHighestRank) {
        read_rank(entry.path(), static_cast<base::Rank>(*rank), out);
      }
    }
  }
  std::sort(out.looks.begin(), out.looks.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.wall_ns, a.why) < std::tie(b.rank, b.wall_ns, b.why);
  });
  return out;
}

}  // namespace xpurun::report
