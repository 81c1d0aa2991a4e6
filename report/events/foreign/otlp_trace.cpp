#include "report/events/foreign/otlp_trace.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "report/events/foreign/left_out.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <optional>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr size_t kLargestOtlp = size_t{256} << 20;

const json& member_of(const json& object, const char* key) {
  static const json kNone;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

std::string text_in(const json& object, const char* key) {
  const json& text = member_of(object, key);
  return text.is_string() ? base::sanitize(text.get<std::string>()) : "";
}

// 64-bit numbers are texts in OTLP's JSON.
std::optional<int64_t> wide_number(const json& number) {
  if (number.is_string()) {
    return base::parse_int(number.get<std::string>());
  }
  return number.is_number_integer() ? std::optional(number.get<int64_t>()) : std::nullopt;
}

std::optional<Argument> attribute_of(const json& attribute) {
  const std::string key = text_in(attribute, "key");
  const json& value = member_of(attribute, "value");
  if (const json& text = member_of(value, "stringValue"); text.is_string()) {
    return Argument{key, base::sanitize(text.get<std::string>())};
  }
  if (const auto number = wide_number(member_of(value, "intValue"))) {
    return Argument{key, *number};
  }
  const json& real = member_of(value, "doubleValue");
  return real.is_number() ? std::optional(Argument{key, real.get<double>()}) : std::nullopt;
}

class OtlpReader {
 public:
  explicit OtlpReader(Activity& out) : out_(out) {}

  void read(const json& trace) {
    // Tempo calls the list "batches".
    const json& spans = member_of(trace, "resourceSpans");
    for (const json& resource : spans.is_null() ? member_of(trace, "batches") : spans) {
      std::string service = "spans";
      for (const json& attribute : member_of(member_of(resource, "resource"), "attributes")) {
        if (text_in(attribute, "key") == "service.name") {
          service = text_in(member_of(attribute, "value"), "stringValue");
        }
      }
      const uint32_t track = out_.track(TrackKind::host, services_++, service);
      // The second name is that of OpenTelemetry before 1.15.
      for (const char* scopes : {"scopeSpans", "instrumentationLibrarySpans"}) {
        for (const json& scope : member_of(resource, scopes)) {
          for (const json& span : member_of(scope, "spans")) {
            add(span, track);
          }
        }
      }
    }
  }
  void bad(std::string_view line) { left_out_.add(line); }
  void finish() { left_out_.note(out_); }

 private:
  void add(const json& span, uint32_t track) {
    const std::string name = text_in(span, "name");
    const auto begin = wide_number(member_of(span, "startTimeUnixNano"));
    const auto end = wide_number(member_of(span, "endTimeUnixNano"));
    if (!begin || !end || *begin < 0 || *begin > kLatestNs || *end < *begin || *end - *begin > kLongestNs) {
      left_out_.add(name);
      return;
    }
    const auto [call, is_new] = calls_.emplace(name, static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      out_.calls.push_back({.name = name, .category = Category::python});
    }
    Slice slice{.begin_ns = *begin, .duration_ns = *end - *begin, .call = call->second, .track = track};
    std::vector<Argument> arguments;
    for (const json& attribute : member_of(span, "attributes")) {
      if (auto argument = attribute_of(attribute)) {
        arguments.push_back(std::move(*argument));
      }
    }
    if (!arguments.empty()) {
      slice.extra = static_cast<uint32_t>(out_.extras.size());
      out_.extras.push_back(std::move(arguments));
    }
    out_.slices.push_back(slice);
  }

  Activity& out_;
  uint32_t services_ = 0;
  std::map<std::string, uint32_t> calls_;
  LeftOut left_out_;
};

}  // namespace

bool begins_otlp_trace(std::string_view head) {
  head = base::trim(head);
  if (!head.starts_with('{')) {
    return false;
  }
  head = base::trim(head.substr(1));
  return head.starts_with("\"resourceSpans\"");
}

base::Result<RecordOwner> owner_of_otlp_trace(const std::string& path) {
  XPURUN_TRY(base::read_file_start(path, 0));
  return RecordOwner{};
}

base::Status parse_otlp_trace(Activity& out, std::string_view text) {
  OtlpReader reader(out);
  const size_t before = out.slices.size();
  if (const json whole = model::parse_json(text); !whole.is_discarded()) {
    reader.read(whole);
  } else {
    for (const std::string_view line : base::split(text, '\n')) {
      const json one = model::parse_json(line);
      if (!one.is_discarded()) {
        reader.read(one);
      } else if (!base::trim(line).empty()) {
        reader.bad(line);
      }
    }
  }
  reader.finish();
  return out.slices.size() > before ? base::Status() : base::fail("there is no span of OpenTelemetry in it");
}

base::Status add_otlp_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(path, kLargestOtlp));
  const auto read = parse_otlp_trace(out, text);
  return read ? read : base::fail(base::Error(read.error()).context(path));
}

}  // namespace xpurun::report
