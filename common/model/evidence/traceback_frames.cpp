#include "common/model/evidence/traceback_frames.h"

#include "common/base/strings.h"
#include "common/model/secrets/redact.h"

#include <cstdint>
#include <optional>

namespace xpurun::model {

namespace {

constexpr size_t kMostFrames = 64;

// `  File "train.py", line 7, in main`
std::optional<PythonFrame> frame_in(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  const size_t after_file = line.find(kLine);
  if (!line.starts_with(kFile) || after_file == std::string_view::npos || after_file < kFile.size()) {
    return std::nullopt;
  }
  const std::string_view rest = line.substr(after_file + kLine.size());
  const size_t in = rest.find(kIn);
  const auto number = base::parse_int(rest.substr(0, in));
  if (in == std::string_view::npos || !number || *number < 0 || *number > INT32_MAX) {
    return std::nullopt;
  }
  return PythonFrame{.file = std::string(line.substr(kFile.size(), after_file - kFile.size())),
                     .line = static_cast<int>(*number),
                     .function = std::string(rest.substr(in + kIn.size()))};
}

}  // namespace

std::vector<PythonFrame> traceback_frames(std::string_view text) {
  std::vector<PythonFrame> out;
  bool source_follows = false;
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with("Traceback (most recent call last)")) {
      out.clear();
    }
    auto frame = frame_in(line);
    if (source_follows && !frame && line.starts_with("    ")) {
      out.back().source = redact_source(base::trim(line));
    }
    source_follows = frame.has_value();
    if (frame) {
      if (out.size() == kMostFrames) {
        out.erase(out.begin());
      }
      out.push_back(std::move(*frame));
    }
  }
  return out;
}

}  // namespace xpurun::model
