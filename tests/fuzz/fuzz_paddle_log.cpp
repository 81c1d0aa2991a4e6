// Logs of Paddle: the first byte is the length of the pieces in which the remainder is read, a byte 0xff
// begins the log of the next stage. All that is read must go through measures, picture, rows and files.
#include "report/pipeline/finder.h"
#include "report/pipeline/paddle/log.h"
#include "report/pipeline/paddle/trace.h"
#include "report/pipeline/view/gantt.h"
#include "report/pipeline/view/trace_tracks.h"
#include "report/pipeline/view/wording.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::report;

namespace {

void expect(bool is_right) {
  if (!is_right) {
    std::abort();
  }
}

RankJobs read(std::string_view text, size_t piece, int rank) {
  PaddleLogReader reader;
  for (size_t at = 0; at < text.size(); at += piece) {
    reader.feed(text.substr(at, piece));
  }
  RankJobs out{
      .rank = rank, .device = rank, .host = std::to_string(rank / 2), .source = model::JobSource::log};
  out.jobs = reader.finish().jobs;
  for (const Job& job : out.jobs) {
    expect(0 <= job.begin_ns && job.begin_ns <= job.end_ns && job.number >= 0 && !job.type.empty());
  }
  put_in_order(out.jobs);
  return out;
}

void write(const model::PipelineReport& report, PaddleTrace form) {
  auto out = OutputFile::to(base::UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)), Compression::none);
  expect(out.has_value());
  write_paddle_trace(*out, report, form);
  expect(out->finish().has_value());
}

void use(const model::PipelineReport& report) {
  for (const model::Pipeline& pipeline : report.pipelines) {
    expect(std::isfinite(pipeline.step_s) && pipeline.bubble >= 0 && pipeline.bubble <= 1);
    for (const model::PipelineStage& stage : pipeline.stages) {
      expect(stage.bubble >= -1e-9 && stage.bubble <= 1);
      for (const model::PipelineJob& job : stage.jobs) {
        expect(job.begin_ns >= 0 && job.step < static_cast<int>(pipeline.steps.size()));
      }
    }
    (void)gantt_svg(pipeline, shown_steps(pipeline), GanttUse::file);
    expect(stage_table(pipeline, 10).rows.size() == std::min<size_t>(10, pipeline.stages.size()));
    (void)step_table(pipeline, 10);
  }
  for (const TimelineRows& rows : pipeline_rows(report)) {
    expect(std::is_sorted(rows.activity.slices.begin(), rows.activity.slices.end(),
                          [](const Slice& a, const Slice& b) { return a.begin_ns < b.begin_ns; }));
  }
  write(report, PaddleTrace::chrome);
  write(report, PaddleTrace::perfetto);
  expect(to_json(report)["pipelines"].size() == report.pipelines.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t piece = text.empty() ? 1 : 1 + static_cast<unsigned char>(text.front());
  text.remove_prefix(text.empty() ? 0 : 1);
  PipelineFinder finder({});
  for (int rank = 0; !text.empty() && rank < 8; ++rank) {
    const size_t end = text.find('\xff');
    finder.add(read(text.substr(0, end), piece, rank));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (const auto report = finder.finish({})) {
    use(*report);
  }
  return 0;
}
