#include "report/timeline/inputs.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/timeline/counters/counters.h"
#include "report/timeline/event_activity.h"
#include "report/timeline/foreign/torch_profiler.h"
#include "report/timeline/foreign/xpu_timer_trace.h"
#include "report/timeline/span_activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

namespace xpurun::report {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kXpuTimer = ".timeline";
constexpr size_t kLongestHeader = size_t{128} << 10;

// What torch.profiler's tensorboard_trace_handler writes. In a directory only these count: other JSON there
// is no trace.
bool is_torch_name(std::string_view path) {
  return path.ends_with(".pt.trace.json") || path.ends_with(".pt.trace.json.gz");
}

bool is_json(std::string_view path) {
  return path.ends_with(".json") || path.ends_with(".json.gz");
}

bool is_ours(std::string_view path) {
  return path.ends_with(model::kEventFileSuffix) || path.ends_with(model::kSpanFileSuffix);
}

std::vector<std::string> files_below(const std::string& operand) {
  std::error_code ec;
  if (!fs::is_directory(operand, ec)) {
    return {operand};
  }
  std::vector<std::string> out;
  for (auto it = fs::recursive_directory_iterator(operand, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    const std::string path = it->path();
    if (it->is_regular_file(ec) && !it->is_symlink(ec) &&
        (is_ours(path) || path.ends_with(kXpuTimer) || is_torch_name(path))) {
      out.push_back(path);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The two header lines, with the reader of whole files.
base::Result<model::EventFileHeader> read_header(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string head, base::read_file_start(path, kLongestHeader));
  const size_t first = head.find('\n');
  const size_t second = first == std::string::npos ? first : head.find('\n', first + 1);
  if (second == std::string::npos) {
    return base::fail(fmt::format("{}: the header is incomplete", path));
  }
  const std::string_view lines = std::string_view(head).substr(0, second + 1);
  if (path.ends_with(model::kEventFileSuffix)) {
    const auto file = model::parse_event_file(lines);
    return file ? base::Result<model::EventFileHeader>(file->header)
                : base::fail(base::Error(file.error()).context(path));
  }
  const auto file = model::parse_span_file(lines);
  return file ? base::Result<model::EventFileHeader>(file->header)
              : base::fail(base::Error(file.error()).context(path));
}

base::Result<TraceSource> identify(const std::string& path) {
  TraceSource out;
  if (is_ours(path)) {
    XPURUN_TRY_ASSIGN(const model::EventFileHeader header, read_header(path));
    out.rank = std::max(header.rank, base::kNoRank);
    out.host = header.host;
    out.pid = out.rank == base::kNoRank ? header.pid : 0;
  } else if (path.ends_with(kXpuTimer)) {
    out.format = TraceFormat::xpu_timer;
    out.rank = rank_of_xpu_timer_name(path);
  } else if (is_json(path)) {
    out.format = TraceFormat::torch_profiler;
    XPURUN_TRY_ASSIGN(out.rank, rank_of_torch_file(path));
  } else {
    return base::fail(
        fmt::format("{} is not a file of a known form (.xev, .xsp, .timeline, .json, .json.gz)", path));
  }
  return out;
}

void note_run(const std::string& operand, TraceInputs& out) {
  const auto manifest = model::load_run_manifest(model::RunDir(operand).run_json());
  if (manifest && manifest->started_wall_ns > 0) {
    out.run_began_ns = out.run_began_ns == 0 ? manifest->started_wall_ns
                                             : std::min(out.run_began_ns, manifest->started_wall_ns);
  }
}

base::Status add_file(Activity& out, const std::string& path, TraceFormat format) {
  switch (format) {
    case TraceFormat::xpurun:
      break;
    case TraceFormat::xpu_timer:
      return add_xpu_timer_trace(out, path);
    case TraceFormat::torch_profiler:
      return add_torch_trace(out, path);
  }
  const auto head = [&](const model::EventFileHeader& h) {
    out.local_rank = h.local_rank;
    out.pid = h.pid;
    out.host = h.host;
    out.gpu = out.gpu.empty() ? h.gpu : out.gpu;
  };
  if (path.ends_with(model::kEventFileSuffix)) {
    XPURUN_TRY_ASSIGN(const model::EventFile file, model::load_event_file(path));
    head(file.header);
    add_events(out, file);
    add_gpu_counters(out, file, path);
  } else {
    XPURUN_TRY_ASSIGN(const model::SpanFile file, model::load_span_file(path));
    head(file.header);
    add_spans(out, file);
  }
  return {};
}

}  // namespace

TraceInputs find_inputs(const std::vector<std::string>& operands) {
  TraceInputs out;
  std::map<std::tuple<bool, base::Rank, TraceFormat, std::string, base::Pid>, TraceSource> found;
  for (const std::string& operand : operands) {
    const std::vector<std::string> files = files_below(operand);
    if (files.empty()) {
      out.problems.push_back(
          {.what = fmt::format("no event file and no span file below {}", operand),
           .cause = "they are written while --timing is on, for ranks that use a GPU or torch in Python"});
    }
    for (const std::string& path : files) {
      auto source = identify(path);
      if (!source) {
        out.problems.push_back(source.error());
        continue;
      }
      // What has neither rank nor process is one row a file.
      const std::string place = source->rank == base::kNoRank && source->pid == 0 ? path : source->host;
      auto& at = found[{source->rank == base::kNoRank, source->rank, source->format, place, source->pid}];
      if (at.files.empty()) {
        at = *source;
      }
      if (std::find(at.files.begin(), at.files.end(), path) == at.files.end()) {
        at.files.push_back(path);
      }
    }
    note_run(operand, out);
  }
  for (auto& [key, source] : found) {
    out.sources.push_back(std::move(source));
  }
  return out;
}

Activity read_source(const TraceSource& source, std::vector<base::Error>& problems) {
  Activity out;
  out.rank = source.rank;
  out.host = source.host;
  for (const std::string& path : source.files) {
    const bool was_complete = out.complete;
    out.complete = true;
    if (const auto added = add_file(out, path, source.format); !added) {
      problems.push_back(added.error());
    }
    if (!out.complete) {
      problems.push_back({.what = fmt::format("{}: the end is missing or damaged", path)});
    }
    out.complete = out.complete && was_complete;
  }
  put_in_order(out);
  return out;
}

}  // namespace xpurun::report
