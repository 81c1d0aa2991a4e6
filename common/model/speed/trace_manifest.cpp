#include "common/model/speed/trace_manifest.h"

#include "common/model/json_visitors.h"

#include <algorithm>

namespace xpurun::model {

template <typename V, Self<TraceManifest::Rank> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("events", r.events);
  visit("file", r.file, WhenEmpty::omit);
  visit("problem", r.problem, WhenEmpty::omit);
}

template <typename V, Self<TraceManifest> T>
void fields(V& visit, T& t) {
  visit("ended", t.ended);
  visit("timeline", t.timeline, WhenEmpty::omit);
  visit("count", t.count);
  visit("start_wall_ns", t.start_wall_ns);
  visit("start_mono_ns", t.start_mono_ns);
  visit("kinds", t.kinds);
  visit("ranks", t.ranks);
}

bool TraceManifest::has_all_gpu_work() const {
  const auto has = [this](std::string_view word) {
    return std::find(kinds.begin(), kinds.end(), word) != kinds.end();
  };
  return has("matmul") && has("collective") && has("memory");
}

nlohmann::ordered_json to_json(const TraceManifest& trace) {
  return write_object(kTraceSchema, trace);
}

base::Result<TraceManifest> trace_manifest_from_json(const nlohmann::json& j) {
  return read_object<TraceManifest>(kTraceSchema, "trace", j);
}

base::Result<TraceManifest> load_trace_manifest(const std::string& path) {
  return load_object(path, trace_manifest_from_json);
}

}  // namespace xpurun::model
