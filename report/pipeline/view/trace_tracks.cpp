#include "report/pipeline/view/trace_tracks.h"

#include "report/pipeline/view/wording.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace xpurun::report {

namespace {

using model::Pipeline;
using model::PipelineJob;
using model::PipelineStage;
using model::PipelineStep;

class Rows {
 public:
  Rows(const Pipeline& pipeline, int64_t begin_ns) : pipeline_(pipeline), begin_ns_(begin_ns) {
    for (const PipelineStep& step : pipeline.steps) {
      out_.extras.push_back({{"step", step.number}});
    }
    add_steps();
    for (const PipelineStage& stage : pipeline.stages) {
      add_stage(stage);
    }
    put_in_order(out_);
  }
  Activity take() { return std::move(out_); }

 private:
  void add_steps() {
    const uint32_t track = out_.track(TrackKind::compute, 0, "steps");
    for (const PipelineStep& step : pipeline_.steps) {
      Call call{.name = fmt::format("step {}", step.number), .category = Category::pipeline};
      if (step.complete) {
        call.arguments.push_back({"bubble_percent", 100 * step.bubble});
        call.arguments.push_back(
            {"critical_stage", int64_t{pipeline_.stages[static_cast<size_t>(step.critical)].stage}});
      } else {
        call.arguments.push_back({"incomplete", int64_t{1}});
      }
      out_.slices.push_back({.begin_ns = begin_ns_ + static_cast<int64_t>(step.begin_s * 1e9),
                             .duration_ns = static_cast<int64_t>(step.duration_s * 1e9),
                             .call = static_cast<uint32_t>(out_.calls.size()),
                             .track = track});
      out_.calls.push_back(std::move(call));
    }
  }

  void add_stage(const PipelineStage& stage) {
    const uint32_t track = out_.track(TrackKind::compute, static_cast<uint32_t>(stage.stage) + 1,
                                      fmt::format("stage {}, {}", stage.stage, place_words(stage)));
    for (const PipelineJob& job : stage.jobs) {
      out_.slices.push_back({.begin_ns = begin_ns_ + job.begin_ns,
                             .duration_ns = job.duration_ns,
                             .call = call_of(job),
                             .track = track,
                             .extra = static_cast<uint32_t>(job.step + 1)});
    }
  }

  uint32_t call_of(const PipelineJob& job) {
    const auto [known, is_new] =
        calls_.emplace(std::tuple(job.type, job.micro_batch, job.chunk, job.gpu, job.at_least),
                       static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      Call call{.name = job.micro_batch < 0 ? job.type : fmt::format("{} {}", job.type, job.micro_batch),
                .category = Category::pipeline,
                .arguments = {{"kind", std::string(model::name_of(job.kind))}}};
      if (job.micro_batch >= 0) {
        call.arguments.push_back({"micro_batch", int64_t{job.micro_batch}});
      }
      if (job.chunk >= 0) {
        call.arguments.push_back({"chunk", int64_t{job.chunk}});
      }
      call.arguments.push_back({"clock", std::string(job.gpu ? "gpu" : "host")});
      if (job.at_least) {
        call.arguments.push_back({"timed_in_part", int64_t{1}});
      }
      out_.calls.push_back(std::move(call));
    }
    return known->second;
  }

  const Pipeline& pipeline_;
  int64_t begin_ns_;
  Activity out_;
  std::map<std::tuple<std::string, int, int, bool, bool>, uint32_t> calls_;
};

}  // namespace

std::vector<TimelineRows> pipeline_rows(const model::PipelineReport& report) {
  std::vector<TimelineRows> out;
  for (const Pipeline& pipeline : report.pipelines) {
    out.push_back({.title = pipeline.name.empty() ? "pipeline" : fmt::format("pipeline, {}", pipeline.name),
                   .activity = Rows(pipeline, report.begin_ns).take()});
  }
  return out;
}

}  // namespace xpurun::report
