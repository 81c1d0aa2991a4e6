#include "report/run/source_lines.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/secrets/redact.h"

#include <filesystem>
#include <map>

namespace xpurun::report {

namespace {

constexpr std::uintmax_t kLargestFile = 4 << 20;
constexpr size_t kLongestLine = 160;
constexpr size_t kMostFiles = 200;

std::string load(const std::string& path) {
  std::error_code ec;
  const auto status = std::filesystem::status(path, ec);
  // A name in a stack may refer to anything, including a device or a pipe.
  if (path.empty() || path[0] != '/' || ec || !std::filesystem::is_regular_file(status) ||
      std::filesystem::file_size(path, ec) > kLargestFile || ec) {
    return {};
  }
  return base::read_regular_file(path, kLargestFile).value_or(std::string());
}

std::string line_of(const std::string& text, int line) {
  size_t at = 0;
  for (int n = 1; n < line; ++n) {
    at = text.find('\n', at);
    if (at == std::string::npos) {
      return {};
    }
    ++at;
  }
  const std::string_view found = std::string_view(text).substr(at, text.find('\n', at) - at);
  return base::elide_middle(model::redact_source(base::sanitize(base::trim(found))), kLongestLine);
}

}  // namespace

void add_source_lines(std::vector<StackClass>& classes) {
  std::map<std::string, std::string> files;
  for (StackClass& c : classes) {
    for (size_t i = 0; i < c.frames.size(); ++i) {
      const model::Frame& f = c.frames[i];
      if (f.kind != model::FrameKind::python || f.line <= 0) {
        continue;
      }
      auto it = files.find(f.file);
      if (it == files.end() && files.size() < kMostFiles) {
        it = files.emplace(f.file, load(f.file)).first;
      }
      if (it == files.end()) {
        continue;
      }
      if (std::string line = line_of(it->second, f.line); !line.empty()) {
        c.source[static_cast<std::ptrdiff_t>(i)] = std::move(line);
      }
    }
  }
}

}  // namespace xpurun::report
