// TraceManifest: trace.json of a trace, its request and its result, schema "xpurun.trace/1". The supervisor
// writes the file; docs/control.md explains the words.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kTraceSchema = "xpurun.trace/1";
inline constexpr std::string_view kTraceFile = "trace.json";  // in the directory of the trace

struct TraceManifest {
  struct Rank {
    base::Rank rank = base::kNoRank;
    uint64_t events = 0;
    std::string file;     // in the directory of the trace; empty: the rank delivered nothing
    std::string problem;  // why the rank has fewer calls than it should have; empty: none
  };

  std::string ended;     // "complete", "timeout", "reset", ...
  std::string timeline;  // entry of --timeline that wanted the trace; empty: a request
  uint64_t count = 0;    // most calls of a rank
  int64_t start_wall_ns = 0;
  int64_t start_mono_ns = 0;
  std::vector<std::string> kinds;  // words: "matmul", "collective", "memory", "host"
  std::vector<Rank> ranks;

  // Whether all work of the GPU is in the trace.
  bool has_all_gpu_work() const;
};

nlohmann::ordered_json to_json(const TraceManifest& trace);
// An error means that the content does not match the schema; the content is not trusted.
base::Result<TraceManifest> trace_manifest_from_json(const nlohmann::json& j);
base::Result<TraceManifest> load_trace_manifest(const std::string& path);

}  // namespace xpurun::model
