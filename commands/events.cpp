// xpurun events: prints event files and span files.
#include "commands/commands.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "launcher/collect/event_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/spans/span_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

namespace xpurun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr size_t kChunk = size_t{1} << 20;  // bytes collected before they are printed

// Files stay files; of a directory every event file and span file below. Links in it are not followed:
// "latest" would give the events twice.
std::vector<std::string> files_of(const std::string& operand) {
  std::error_code ec;
  if (!fs::is_directory(operand, ec)) {
    return {operand};
  }
  std::vector<std::string> out;
  for (auto it = fs::recursive_directory_iterator(operand, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    const std::string suffix = it->path().extension();
    if (it->is_regular_file(ec) && !it->is_symlink(ec) &&
        (suffix == model::kEventFileSuffix || suffix == model::kSpanFileSuffix)) {
      out.push_back(it->path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Prints `text`, then line(0) and so on.
int print_lines(std::string text, size_t lines, const std::function<std::string(size_t)>& line) {
  for (size_t i = 0; i < lines; ++i) {
    text += line(i);
    if (text.size() >= kChunk) {
      if (const int status = print(text); status != 0) {
        return status;
      }
      text.clear();
    }
  }
  return print(text);
}

int print_events(const std::string& path, bool json) {
  const auto file = model::load_event_file(path);
  if (!file) {
    return complain(file.error(), kExitFailure);
  }
  return print_lines(json ? event_file_json(*file, path) : event_file_text(*file, path), file->events.size(),
                     [&](size_t i) { return json ? event_json(*file, i) : event_text(*file, i); });
}

int print_spans(const std::string& path, bool json) {
  const auto file = model::load_span_file(path);
  if (!file) {
    return complain(file.error(), kExitFailure);
  }
  int status =
      print_lines(json ? span_file_json(*file, path) : span_file_text(*file, path), file->spans.size(),
                  [&](size_t i) { return json ? span_json(*file, i) : span_text(*file, i); });
  if (status == 0) {
    status = print_lines({}, file->short_calls.size(), [&](size_t i) {
      return json ? short_calls_json(*file, i) : short_calls_text(*file, i);
    });
  }
  if (status != 0 || !json) {
    return status;
  }
  return print_lines({}, file->loads.size(), [&](size_t i) { return load_json(*file, i); });
}

}  // namespace

int events_command(const Invocation& call) {
  if (call.words.operands.empty()) {
    return complain_usage(call, base::cli_text("events needs event files or run directories"));
  }
  const bool json = call.words.settings.has("json");
  int status = 0;
  for (const std::string& operand : call.words.operands) {
    const std::vector<std::string> files = files_of(operand);
    if (files.empty()) {
      status =
          complain({.what = base::cli_text("no event file below {}", base::sanitize(operand)),
                    .cause = base::cli_text(
                        "event files are written while --timing is on, for ranks that use a GPU or PyTorch")},
                   kExitFailure);
    }
    for (const std::string& path : files) {
      const bool spans = path.ends_with(model::kSpanFileSuffix);
      const int one = spans ? print_spans(path, json) : print_events(path, json);
      status = status == 0 ? one : status;
    }
  }
  return status;
}

}  // namespace xpurun::launcher
