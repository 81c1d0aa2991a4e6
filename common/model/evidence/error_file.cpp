#include "common/model/evidence/error_file.h"

#include "common/base/strings.h"
#include "common/model/evidence/traceback_frames.h"
#include "common/model/json_fields.h"
#include "common/model/secrets/redact.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::model {

namespace {

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
    link.frames = traceback_frames(text_of(extra, "py_callstack"));
    const int64_t seconds = base::parse_int(text_of(extra, "timestamp")).value_or(0);
    out.wall_seconds = seconds > 0 && seconds < (int64_t{1} << 33) ? seconds : 0;
  }
  out.exception.kind = ExceptionKind::raised;
  out.exception.thread = "MainThread";
  out.exception.chain.push_back(std::move(link));
  return out;
}

}  // namespace xpurun::model
