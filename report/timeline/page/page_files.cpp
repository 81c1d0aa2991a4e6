#include "report/timeline/page/page_files.h"

#include "common/base/strings.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

// "events" of ranks/0/events-12.xev; "captures" of captures/3/rank-0.xev.
std::string kind_of(const fs::path& path) {
  const std::string name = path.filename();
  const std::string prefix = name.substr(0, name.find('-'));
  const std::string suffix = path.extension();
  return prefix == "rank" ? path.parent_path().parent_path().filename().string() + suffix : prefix + suffix;
}

}  // namespace

void FileChain::take(int64_t from_ns, std::vector<std::string>& out) const {
  for (const File& file : files) {
    out.push_back(file.path);
    if (file.begin_ns <= from_ns) {
      return;
    }
  }
}

std::vector<FileChain> file_chains(const std::vector<std::string>& files) {
  std::map<std::string, FileChain> found;
  for (const std::string& path : files) {
    // What cannot be read is left out; `xpurun timeline` names it.
    if (const auto header = read_record_header(path)) {
      found[kind_of(path)].files.push_back({path, header->wall_ns});
    }
  }
  std::vector<FileChain> out;
  for (auto& [kind, chain] : found) {
    std::stable_sort(chain.files.begin(), chain.files.end(),
                     [](const auto& a, const auto& b) { return a.begin_ns > b.begin_ns; });
    out.push_back(std::move(chain));
  }
  return out;
}

}  // namespace xpurun::report
