// Picture, tables and rows of a trace.
#include "common/model/timing/span_encoder.h"
#include "report/pipeline/view/gantt.h"
#include "report/pipeline/view/trace_tracks.h"
#include "report/pipeline/view/wording.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/pipeline/made_pipeline.h"
#include "tests/unit/report/timeline/samples.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::tests;

namespace {

model::Pipeline slow_second() {
  return find(make_ranks({.stages = {{}, {.forward_ms = 2, .backward_ms = 4}}, .batches = 4, .steps = 3}))
      ->pipelines[0];
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++n;
  }
  return n;
}

// The spans of a rank whose jobs are marked.
std::string marked_spans(const RankJobs& rank) {
  model::SpanEncoder encoder;
  for (const Job& job : rank.jobs) {
    const bool forward = job.kind == model::JobKind::forward;
    encoder.add({.begin_ns = job.begin_ns - kWall,
                 .duration_ns = job.end_ns - job.begin_ns,
                 .stage = forward                                ? model::Stage::forward
                          : job.kind == model::JobKind::backward ? model::Stage::backward
                                                                 : model::Stage::optimizer,
                 .name = encoder.name(job.micro_batch < 0 ? "SGD.step"
                                                          : fmt::format("micro-batch {}", job.micro_batch)),
                 .thread = 7});
  }
  return model::SpanEncoder::header(
             {.rank = rank.rank, .pid = 100, .host = "node0", .mono_ns = 0, .wall_ns = kWall}) +
         encoder.take_block();
}

class Extra : public TimelineExtra {
 public:
  void add(const Activity& activity) override { finder_.add(activity); }
  std::vector<TimelineRows> rows(const JobClocks&) override {
    return pipeline_rows(*finder_.finish([](const std::string&) { return 0; }));
  }

 private:
  PipelineFinder finder_{{}};
};

}  // namespace

TEST_CASE("the picture has a box for each job of two steps") {
  const model::Pipeline pipeline = slow_second();
  const StepRange steps = shown_steps(pipeline);
  CHECK(steps.first == 1);
  CHECK(steps.last == 2);
  const std::string svg = gantt_svg(pipeline, steps, GanttUse::file);
  CHECK(svg.starts_with("<svg class=\"gantt\" xmlns="));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count_of(svg, "job-forward\" x=") == 2 * 2 * 4 + 1);  // and the legend
  CHECK(count_of(svg, "job-backward\" x=") == 2 * 2 * 4 + 1);
  CHECK(count_of(svg, "job-optimizer\" x=") == 2 * 2 + 1);
  CHECK(count_of(svg, "<text") == count_of(svg, "</text>"));
  CHECK(svg.find("▶ 1 · rank 1") != std::string::npos);
  CHECK(svg.find("forward of micro-batch 3, ") != std::string::npos);
  CHECK(svg.find("NaN") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(gantt_svg(pipeline, steps, GanttUse::page).find("<style>") == std::string::npos);
  CHECK(gantt_svg({}, {}, GanttUse::page).empty());
}

TEST_CASE("narrow jobs share boxes, so that the picture stays small") {
  MadePipeline many{.stages = std::vector<MadeStage>(8), .batches = 4000, .optimizer_ms = 0};
  const auto report = find(make_ranks(many));
  REQUIRE(report);
  const std::string svg = gantt_svg(report->pipelines[0], {0, 0}, GanttUse::page);
  CHECK(svg.size() < 400'000);
  CHECK(svg.find("<title>") == std::string::npos);
  CHECK(gantt_svg(report->pipelines[0], {0, 0}, GanttUse::page, {.stages = 2}).size() < svg.size() / 3);
}

TEST_CASE("without a complete step all jobs are shown") {
  std::vector<RankJobs> ranks = make_ranks({.stages = {{}, {}}, .batches = 4});
  ranks[0].jobs.pop_back();
  ranks[0].jobs.pop_back();
  const model::Pipeline pipeline = find(ranks)->pipelines[0];
  CHECK_FALSE(pipeline.steps[0].complete);
  CHECK(gantt_svg(pipeline, shown_steps(pipeline), GanttUse::file).find(", incomplete") != std::string::npos);
}

TEST_CASE("tables") {
  const model::Pipeline pipeline = slow_second();
  const TextTable stages = stage_table(pipeline, 1);
  CHECK(stages.all_rows == 2);
  REQUIRE(stages.rows.size() == 1);
  CHECK(stages.about == "Jobs from point-to-point operations and backward passes, in host time.");
  const TextTable all = stage_table(pipeline, 9);
  CHECK(all.rows[1][0] == "1 (critical)");
  CHECK(all.rows[1][3] == "24.0");
  const TextTable steps = step_table(pipeline, 2);
  REQUIRE(steps.rows.size() == 2);
  CHECK(steps.rows[1][0] == "2");
  CHECK(steps.rows[1].size() == steps.columns.size());
  CHECK(steps.rows[1][4] == "1");
}

TEST_CASE("rows of a Perfetto trace") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-pipeline-test-");
  const auto ranks = make_ranks({.stages = {{}, {}}, .batches = 4, .steps = 2, .numbered = true});
  for (const RankJobs& rank : ranks) {
    put_file(fmt::format("{}/ranks/{}/spans-1.xsp", dir.path(), rank.rank), marked_spans(rank));
  }
  Extra extra;
  TimelineOptions options;
  options.out = dir.path() + "/out";
  options.extra = &extra;
  const auto result = make_timeline({dir.path()}, options);
  REQUIRE(result);
  CHECK(result->processes == 3);
  // The spans of both ranks, the jobs again, and two steps.
  CHECK(result->counts.slices == 2 * 2 * 2 * 9 + 2);
  const std::string text = testing::PerfettoText::of(*base::read_file(options.out));
  CHECK(text.find("track pipeline\n") != std::string::npos);
  CHECK(text.find("track pipeline / steps") != std::string::npos);
  CHECK(text.find(fmt::format(
            "{} begin pipeline / stage 1, rank 1: forward 0 [pipeline] kind=forward micro_batch=0 "
            "clock=host step=0\n",
            kBegin + kMs)) != std::string::npos);
  CHECK(text.find("step 1 [pipeline] bubble_percent=20 critical_stage=0") != std::string::npos);
  // They form a separate kind.
  options.only = {Category::matmul};
  CHECK_FALSE(make_timeline({dir.path()}, options));
  Extra again;
  options.only = {Category::pipeline};
  options.extra = &again;
  CHECK(make_timeline({dir.path()}, options)->processes == 1);
}
