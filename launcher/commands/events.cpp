// xpurun events: prints event files.
#include "common/base/strings.h"
#include "launcher/collect/event_text.h"
#include "launcher/commands/commands.h"
#include "launcher/options/exit_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace xpurun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".xev";
constexpr size_t kChunk = size_t{1} << 20;  // bytes collected before they are printed

// Files stay files; of a directory every event file below. Links in it are not followed: "latest" would give
// the events twice.
std::vector<std::string> files_of(const std::string& operand) {
  std::error_code ec;
  if (!fs::is_directory(operand, ec)) {
    return {operand};
  }
  std::vector<std::string> out;
  for (auto it = fs::recursive_directory_iterator(operand, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (it->is_regular_file(ec) && !it->is_symlink(ec) && it->path().extension() == kSuffix) {
      out.push_back(it->path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

int print_file(const model::EventFile& file, const std::string& path, bool json) {
  std::string text = json ? event_file_json(file, path) : event_file_text(file, path);
  for (size_t i = 0; i < file.events.size(); ++i) {
    text += json ? event_json(file, i) : event_text(file, i);
    if (text.size() >= kChunk) {
      if (const int status = print(text); status != 0) {
        return status;
      }
      text.clear();
    }
  }
  return print(text);
}

}  // namespace

int events_command(const Invocation& call) {
  if (call.words.operands.empty()) {
    return complain_usage(call, "events needs event files or run directories");
  }
  const bool json = call.words.settings.has("json");
  int status = 0;
  for (const std::string& operand : call.words.operands) {
    const std::vector<std::string> files = files_of(operand);
    if (files.empty()) {
      status = complain({.what = fmt::format("no event file below {}", base::sanitize(operand)),
                         .cause = "event files are written while --timing is on, for ranks that use a GPU"},
                        kExitFailure);
    }
    for (const std::string& path : files) {
      const auto file = model::load_event_file(path);
      const int one = file ? print_file(*file, path, json) : complain(file.error(), kExitFailure);
      status = status == 0 ? one : status;
    }
  }
  return status;
}

}  // namespace xpurun::launcher
