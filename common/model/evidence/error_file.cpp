#include "common/model/evidence/error_file.h"

#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "common/model/secrets/redact.h"

#include <nlohmann/json.hpp>

#include <algorithm>

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

// Frames of the last traceback in the text: earlier tracebacks are causes and contexts.
std::vector<PythonFrame> frames_in(std::string_view text) {
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

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
  });
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view json) {
  const auto j = parse_json(json);
  if (!j.is_object() || !j.contains("message")) {
    return std::nullopt;
  }
  const auto& content = j["message"];
  const std::string message = content.is_string() ? content.get<std::string>() : text_of(content, "message");
  if (message.empty()) {
    return std::nullopt;
  }
  ErrorFile out;
  ExceptionLink link;
  const size_t colon = message.find(": ");
  const std::string_view type = std::string_view(message).substr(0, colon);
  if (is_name(type)) {
    link.type = type;
    link.message = colon == std::string::npos ? std::string() : redact_text(message.substr(colon + 2));
  } else {
    link.type = "Exception";
    link.message = redact_text(message);
  }
  if (content.is_object() && content.contains("extraInfo")) {
    const auto& extra = content["extraInfo"];
    link.frames = frames_in(text_of(extra, "py_callstack"));
    const int64_t seconds = base::parse_int(text_of(extra, "timestamp")).value_or(0);
    out.wall_seconds = seconds > 0 && seconds < (int64_t{1} << 33) ? seconds : 0;
  }
  out.exception.kind = ExceptionKind::raised;
  out.exception.thread = "MainThread";
  out.exception.chain.push_back(std::move(link));
  return out;
}

}  // namespace xpurun::model
