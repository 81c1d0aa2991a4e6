#include "report/pipeline/files.h"

#include "common/base/output/progress.h"
#include "common/model/timing/span_file.h"
#include "report/events/job_clocks.h"
#include "report/pipeline/paddle/log_files.h"
#include "report/timeline/inputs.h"

#include <algorithm>

namespace xpurun::report {

namespace {

PipelineOfRun read_logs(const std::vector<std::string>& directories, PipelineOptions options) {
  PaddleLogs logs = read_paddle_logs(directories);
  options.first_step = logs.first_step;
  PipelineFinder finder(std::move(options));
  for (RankJobs& rank : logs.ranks) {
    finder.add(std::move(rank));
  }
  PipelineOfRun out{.problems = std::move(logs.problems), .ranks = finder.ranks()};
  out.report = finder.finish({});
  return out;
}

TraceSource spans_of(TraceSource source) {
  std::erase_if(source.files,
                [](const std::string& path) { return !path.ends_with(model::kSpanFileSuffix); });
  return source;
}

// Of a job without a pipeline no more ranks are read.
constexpr size_t kLooked = 8;

// Whether one of the first ranks has jobs, as its spans say.
bool may_be_pipeline(const TraceInputs& inputs, const PipelineOptions& options) {
  size_t looked = 0;
  for (const TraceSource& source : inputs.sources) {
    const TraceSource spans = spans_of(source);
    if (spans.files.empty()) {
      continue;
    }
    if (++looked > kLooked) {
      break;
    }
    std::vector<base::Error> later;  // reported when all files are read
    // Point-to-point operations may be in the event files.
    if (jobs_of(read_source(spans, later), options.functions, Evidence::not_needed)) {
      return true;
    }
  }
  return false;
}

}  // namespace

PipelineOfRun read_pipeline(const std::vector<std::string>& operands, const PipelineOptions& options) {
  if (!operands.empty() && std::all_of(operands.begin(), operands.end(), holds_paddle_logs)) {
    return read_logs(operands, options);
  }
  TraceInputs inputs = find_inputs(operands);
  leave_out_open_calls(inputs);
  std::erase_if(inputs.sources, [&](const TraceSource& source) { return !options.wants(source.rank); });
  PipelineOfRun out{.problems = std::move(inputs.problems)};
  if (!may_be_pipeline(inputs, options)) {
    return out;
  }
  PipelineFinder finder(options);
  JobClocks clocks;
  base::Progress progress("reading", inputs.sources.size());
  for (const TraceSource& source : inputs.sources) {
    if (source.importer->is_ours()) {
      const Activity activity = read_source(source, out.problems);
      clocks.add(activity);
      finder.add(activity);
    }
    progress.advance();
  }
  clocks.solve();
  out.ranks = finder.ranks();
  ClockOffset offset;
  if (clocks.residual().collectives > 0) {
    offset = [&clocks](const std::string& host) { return clocks.offset_ns(host); };
  }
  out.report = finder.finish(offset);
  return out;
}

}  // namespace xpurun::report
