#include "report/memory/look_files.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLargestLook = size_t{1} << 20;

struct LookFile {
  bool is_first = false;  // says why the job ended, or what grew
  base::Rank rank = base::kNoRank;
  std::string path;
  size_t bytes = 0;
};

void find_looks(const fs::path& dir, base::Rank rank, std::vector<LookFile>& out) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(model::kMemoryFilePrefix) && name.ends_with(".json")) {
      const bool is_first =
          name.find("out_of_memory") != std::string::npos || name.find("growth") != std::string::npos;
      const auto size = entry.is_regular_file(ec) ? entry.file_size(ec) : 0;
      out.push_back({is_first, rank, entry.path().string(), static_cast<size_t>(size)});
    }
  }
}

}  // namespace

LookFiles read_looks(const std::vector<std::string>& run_dirs, size_t most_bytes) {
  std::vector<LookFile> files;
  for (const std::string& run : run_dirs) {
    std::error_code ec;
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(run) / "ranks", ec)) {
      const auto rank = base::parse_int(entry.path().filename().string());
      if (rank && *rank >= 0 && *rank < base::kHighestRank) {
        find_looks(entry.path(), static_cast<base::Rank>(*rank), files);
      }
    }
  }
  std::sort(files.begin(), files.end(), [](const LookFile& a, const LookFile& b) {
    return a.is_first != b.is_first ? a.is_first : std::tie(a.rank, a.path) < std::tie(b.rank, b.path);
  });
  LookFiles out;
  size_t bytes = 0;
  for (const LookFile& file : files) {
    bytes += file.bytes;
    if (bytes > most_bytes) {
      out.notes.push_back(base::tr("some looks at the memory are left out: xpurun memory reads all"));
      break;
    }
    const auto text = base::read_regular_file(file.path, kLargestLook);
    auto look = text ? model::memory_look_from_json(*text) : base::fail(text.error());
    if (look) {
      look->rank = file.rank;
      out.looks.push_back(std::move(*look));
    } else {
      out.notes.push_back(base::to_line(base::Error(look.error()).context(file.path)));
    }
  }
  std::sort(out.looks.begin(), out.looks.end(), [](const auto& a, const auto& b) {
    return std::tie(a.rank, a.wall_ns, a.why) < std::tie(b.rank, b.wall_ns, b.why);
  });
  return out;
}

}  // namespace xpurun::report
