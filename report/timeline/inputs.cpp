#include "report/timeline/inputs.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/speed/trace_manifest.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/timeline/activity/event_activity.h"
#include "report/timeline/counters/counters.h"
#include "report/timeline/foreign/torch_profiler.h"
#include "report/timeline/foreign/xpu_timer_trace.h"
#include "report/timeline/span_activity.h"
#include "report/timeline/untimed_calls.h"

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

std::vector<std::string> traces_below(const std::string& operand) {
  std::vector<std::string> out;
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(operand, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    if (it->path().filename() == model::kTraceFile && it->is_regular_file(ec) && !it->is_symlink(ec)) {
      out.push_back(it->path());
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
  if (!manifest) {
    return;
  }
  out.world_size = std::max(out.world_size, manifest->world_size);
  if (manifest->started_wall_ns > 0) {
    out.run_began_ns = out.run_began_ns == 0 ? manifest->started_wall_ns
                                             : std::min(out.run_began_ns, manifest->started_wall_ns);
  }
}

// The run directory of a directory of a trace or a capture; empty: it is none.
std::string run_around(const std::string& operand) {
  std::error_code ec;
  const fs::path dir = fs::canonical(operand, ec);
  const std::string kind = dir.parent_path().filename();
  const fs::path run = dir.parent_path().parent_path();
  return !ec && (kind == "traces" || kind == "captures") && fs::exists(run / "run.json", ec) ? run.string()
                                                                                             : "";
}

// The span files of the run of a trace, by rank; they count in the time of its events.
void give_spans(const std::string& run, std::vector<TraceSource>& sources) {
  for (const std::string& path : files_below(run + "/ranks")) {
    if (!path.ends_with(model::kSpanFileSuffix)) {
      continue;
    }
    const auto of = identify(path);
    for (TraceSource& source : sources) {
      if (of && source.rank == of->rank && source.rank != base::kNoRank && source.host == of->host &&
          source.format == TraceFormat::xpurun &&
          std::find(source.files.begin(), source.files.end(), path) == source.files.end()) {
        source.beside.push_back(path);
      }
    }
  }
}

// Leaves of the spans those that overlap the other slices, and of the counters what lies between these.
void cut_spans(Activity& activity) {
  int64_t from = kLatestNs;
  int64_t until = 0;
  const auto is_python = [&](const Slice& s) { return activity.tracks[s.track].kind == TrackKind::python; };
  for (const Slice& s : activity.slices) {
    if (!is_python(s) && !activity.calls[s.call].open) {
      from = std::min(from, s.begin_ns - int64_t{s.delay_us} * 1'000);
      until = std::max(until, s.end_ns());
    }
  }
  std::erase_if(activity.slices,
                [&](const Slice& s) { return is_python(s) && (s.end_ns() < from || s.begin_ns > until); });
  for (Counter& counter : activity.counters) {
    std::erase_if(counter.samples, [&](const Counter::Sample& sample) {
      return sample.wall_ns < from || sample.wall_ns > until;
    });
  }
  std::erase_if(activity.short_calls, [&](const ShortCalls& calls) {
    return calls.begin_ns + calls.duration_ns < from || calls.begin_ns > until;
  });
}

// A rank of which nothing else is known gets a source of its own.
void give_open_calls(const std::string& operand, std::vector<TraceSource>& sources) {
  for (auto& [rank, calls] : open_calls(operand)) {
    const std::string& host = calls.front().host;
    auto at = std::find_if(sources.begin(), sources.end(), [&, rank = rank](const TraceSource& s) {
      return s.rank == rank && s.format == TraceFormat::xpurun && (s.host == host || host.empty());
    });
    if (at == sources.end()) {
      const auto behind = std::find_if(sources.begin(), sources.end(), [rank = rank](const TraceSource& s) {
        return s.rank == base::kNoRank || s.rank > rank;
      });
      at = sources.insert(behind, {.rank = rank, .host = host});
    }
    std::move(calls.begin(), calls.end(), std::back_inserter(at->open));
  }
}

base::Status add_file(Activity& out, UntimedCalls& untimed, const std::string& path, TraceFormat format) {
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
    const RecordedCalls recorded = recorded_calls(file, path);
    add_events(out, file);
    add_gpu_counters(out, file, recorded, path);
    untimed.add(file, recorded);
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
  for (const std::string& operand : operands) {
    give_open_calls(operand, out.sources);
    if (const std::string run = run_around(operand); !run.empty()) {
      give_spans(run, out.sources);
      note_run(run, out);
    }
    const std::vector<std::string> traces = traces_below(operand);
    out.traces.insert(out.traces.end(), traces.begin(), traces.end());
  }
  return out;
}

void leave_out_open_calls(TraceInputs& inputs) {
  for (TraceSource& source : inputs.sources) {
    source.open.clear();
  }
  std::erase_if(inputs.sources, [](const TraceSource& source) { return source.files.empty(); });
}

base::Result<int64_t> file_begin_ns(const std::string& path) {
  XPURUN_TRY_ASSIGN(const model::EventFileHeader header, read_header(path));
  return header.wall_ns;
}

Activity read_source(const TraceSource& source, std::vector<base::Error>& problems) {
  Activity out;
  out.rank = source.rank;
  out.host = source.host;
  UntimedCalls untimed;
  std::vector<std::string> files = source.files;
  files.insert(files.end(), source.beside.begin(), source.beside.end());
  for (const std::string& path : files) {
    const bool was_complete = out.complete;
    out.complete = true;
    if (const auto added = add_file(out, untimed, path, source.format); !added) {
      problems.push_back(added.error());
    }
    if (!out.complete) {
      problems.push_back({.what = fmt::format("{}: the end is missing or damaged", path)});
    }
    out.complete = out.complete && was_complete;
  }
  if (!source.beside.empty()) {
    cut_spans(out);
  }
  out.untimed = untimed.periods();
  add_open_calls(out, source.open);
  put_in_order(out);
  return out;
}

}  // namespace xpurun::report
