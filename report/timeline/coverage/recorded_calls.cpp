#include "report/timeline/coverage/recorded_calls.h"

#include "common/model/speed/trace_manifest.h"

#include <algorithm>
#include <filesystem>

namespace xpurun::report {

RecordedCalls recorded_calls(const model::EventFile& file, const std::string& path) {
  const std::filesystem::path where(path);
  if (!where.filename().string().starts_with("rank-")) {
    return RecordedCalls::some;  // a rank's own file
  }
  const std::filesystem::path manifest = where.parent_path() / model::kTraceFile;
  std::error_code ec;
  if (!std::filesystem::exists(manifest, ec)) {
    return RecordedCalls::all;  // of a capture
  }
  const auto trace = model::load_trace_manifest(manifest.string());
  if (!trace || !trace->has_all_gpu_work()) {
    return RecordedCalls::some;
  }
  const auto rank = std::find_if(trace->ranks.begin(), trace->ranks.end(),
                                 [&](const auto& r) { return r.rank == file.header.rank; });
  const bool full = rank != trace->ranks.end() && rank->events >= trace->count;
  return full ? RecordedCalls::all_but_end : RecordedCalls::all;
}

}  // namespace xpurun::report
