// Input: a byte with the kind of file, then gpu.json, kernel.json or evidence.json of a dump,
// gpu-health.json, machine.json or source.json of a run, or trace.json of a trace; or gpu.json and
// clocks.json of a capture, separated by a NUL byte. What can be read can be written, read again and shown;
// times and shares are finite.
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/gpu_state.h"
#include "common/model/evidence/kernel_events.h"
#include "common/model/evidence/machine.h"
#include "common/model/evidence/source_record.h"
#include "common/model/json/json_text.h"
#include "common/model/speed/capture_report.h"
#include "report/build/capture_files.h"
#include "report/profile/profile.h"
#include "report/timeline/coverage/trace_gaps.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

using namespace xpurun;
using nlohmann::json;

namespace {

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

std::string text_of(const nlohmann::ordered_json& value) {
  return model::json_text(value);
}

// The second reading must give the written value.
template <typename T>
std::optional<T> read(const std::string& text, base::Result<T> (*from_json)(const json&)) {
  auto value = from_json(json::parse(text, nullptr, /*allow_exceptions=*/false));
  if (!value) {
    return std::nullopt;
  }
  const std::string written = text_of(to_json(*value));
  const auto again = from_json(json::parse(written));
  check(again && text_of(to_json(*again)) == written);
  return std::move(*value);
}

void check_line(const std::string& line) {
  check(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
}

void read_health(const std::string& text) {
  const auto health = read(text, model::gpu_health_from_json);
  if (!health) {
    return;
  }
  for (const model::GpuClocks& gpu : health->clocks(INT64_MIN, INT64_MAX)) {
    check(gpu.samples > 0);
    for (const auto& throttled : gpu.throttled) {
      check(std::isfinite(throttled.share) && throttled.share >= 0);
    }
  }
  check(health->clocks(INT64_MAX, INT64_MIN).empty());
}

const std::string& directory() {
  static const auto made = base::TemporaryDirectory::create("xpurun-fuzz-");
  static const std::string path = made ? made->path() + "/run/traces/1" : std::string();
  check(!path.empty() && base::make_dirs(path));
  return path;
}

void put(const std::string& name, std::string_view text) {
  check(base::write_file_atomic(directory() + "/" + name, text).has_value());
}

void read_trace(const std::string& text) {
  put("trace.json", text);
  const std::string path = directory() + "/trace.json";
  for (const model::RankSet& ranks : {model::RankSet(), model::RankSet{0}}) {
    for (const std::string& line : report::trace_gaps({path}, ranks)) {
      check_line(line);
    }
  }
}

void read_capture(const std::string& text) {
  const size_t end = std::min(text.find('\0'), text.size());
  put("profile.json", report::profile_json({.about = "pid 1", .interval_s = 0.01, .seconds = 1}));
  put("gpu.json", std::string_view(text).substr(0, end));
  put("clocks.json", std::string_view(text).substr(std::min(end + 1, text.size())));
  const auto capture = report::read_capture({directory() + "/profile.json"});
  check(capture.has_value());
  text_of(to_json(*capture));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'g':
      read(text, model::gpu_state_from_json);
      break;
    case 'k':
      read(text, model::kernel_events_from_json);
      break;
    case 'e':
      read(text, model::evidence_manifest_from_json);
      break;
    case 'm':
      read(text, model::machine_history_from_json);
      break;
    case 's':
      read(text, model::source_record_from_json);
      break;
    case 'h':
      read_health(text);
      break;
    case 't':
      read_trace(text);
      break;
    default:
      read_capture(text);
  }
  return 0;
}
