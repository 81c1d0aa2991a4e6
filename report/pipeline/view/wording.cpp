#include "report/pipeline/view/wording.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr double kMs = 1e3;
constexpr size_t kMostStageColumns = 16;
constexpr double kMostlyGpu = 0.95;

std::string ms(double seconds) {
  return short_number(seconds * kMs);
}

std::string share(double part) {
  return fmt::format("{:.1f}", 100 * part);
}

int jobs_of_step(const model::Pipeline& pipeline) {
  const auto complete = std::find_if(pipeline.steps.begin(), pipeline.steps.end(),
                                     [](const model::PipelineStep& s) { return s.complete; });
  return complete == pipeline.steps.end() ? 0 : complete->jobs;
}

std::string_view words_of(model::JobSource source) {
  switch (source) {
    case model::JobSource::calls:
      return base::later("from point-to-point operations and backward passes");
    case model::JobSource::functions:
      return base::later("from traced functions");
    case model::JobSource::marks:
      return base::later("as the program marked them");
    case model::JobSource::log:
      break;
  }
  return base::later("from a log of Paddle");
}

}  // namespace

std::string place_words(const model::PipelineStage& stage) {
  if (stage.source != model::JobSource::log) {
    return base::tr("rank {}", stage.rank);
  }
  return stage.machine < 0 ? fmt::format("GPU{}", stage.device)
                           : fmt::format("GPU{}(machine:{})", stage.device, stage.machine);
}

std::string pipeline_sentence(const model::Pipeline& pipeline) {
  if (pipeline.step_s <= 0) {
    return base::tr("no complete step was recorded, so the bubbles are unknown");
  }
  const int jobs = jobs_of_step(pipeline);
  std::string out = base::tr(
      "the stages are idle for {} of a step of {}; with {} equal stages and {} {} per step, the schedule "
      "alone costs {}",
      percent(pipeline.bubble), short_seconds(pipeline.step_s), pipeline.stages.size(), jobs,
      jobs == 1 ? base::tr("forward job") : base::tr("forward jobs"), percent(pipeline.schedule));
  if (pipeline.at_least) {
    out += base::tr("; a part of the GPU work was not timed, so the stages may be less idle");
  }
  if (pipeline.critical < 0) {
    return out + base::tr("; no stage stands out as the busiest");
  }
  const model::PipelineStage& stage = pipeline.stages[static_cast<size_t>(pipeline.critical)];
  return out + base::tr(
                   "; stage {} ({}) is critical: it works {} per step, and a step would be up to {} ({}) "
                   "shorter if this stage worked only as long as the next busiest",
                   stage.stage, place_words(stage), short_seconds(stage.busy_s),
                   short_seconds(pipeline.saving_s), percent(pipeline.saving_s / pipeline.step_s));
}

std::string pipelines_sentence(const model::PipelineReport& report) {
  const auto slowest = std::max_element(report.pipelines.begin(), report.pipelines.end(),
                                        [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
  return slowest == report.pipelines.end() ? ""
         : report.pipelines.size() == 1    ? slowest->sentence
                                           : base::tr("{} pipelines; the slowest, {}: {}",
                                                      report.pipelines.size(), slowest->name, slowest->sentence);
}

std::string source_words(const model::Pipeline& pipeline) {
  std::string out = base::tr("Jobs ");
  std::vector<model::JobSource> seen;
  size_t gpu = 0;
  for (const model::PipelineStage& stage : pipeline.stages) {
    if (std::find(seen.begin(), seen.end(), stage.source) == seen.end()) {
      out += (seen.empty() ? "" : base::tr(" or ")) + base::tr(words_of(stage.source));
      seen.push_back(stage.source);
    }
    gpu += stage.gpu_share >= kMostlyGpu ? 1 : 0;
  }
  out += gpu == pipeline.stages.size() ? base::tr(", in GPU time.")
         : gpu > 0                     ? base::tr(", in GPU or host time.")
                                       : base::tr(", in host time.");
  if (pipeline.at_least) {
    out += base::tr(
        " Jobs whose GPU work was timed in part lasted at least as long as shown; a trace (--timeline, "
        "xpurun ctl "
        "trace) or a capture times all of it.");
  }
  return out;
}

TextTable stage_table(const model::Pipeline& pipeline, size_t most) {
  TextTable out{.id = "stages",
                .title = pipeline.name.empty() ? base::tr("stages") : base::tr("stages, {}", pipeline.name),
                .about = source_words(pipeline),
                .columns = {{std::string(base::later("stage")), false, kNeverLeftOut},
                            {"rank", false, 6},
                            {"host", false, 1},
                            {"busy ms", true, 7},
                            {"bubble %", true, 8},
                            {"forward ms", true, 5},
                            {"backward ms", true, 4},
                            {"GPU time %", true, 2},
                            {std::string(base::later("timed in part %")), true, 1}},
                .all_rows = pipeline.stages.size()};
  for (size_t i = 0; i < pipeline.stages.size() && i < most; ++i) {
    const model::PipelineStage& s = pipeline.stages[i];
    const bool critical = static_cast<int>(i) == pipeline.critical;
    out.rows.push_back({fmt::format("{}{}", s.stage, critical ? base::tr(" (critical)") : ""), place_words(s),
                        base::sanitize(s.host), ms(s.busy_s), share(s.bubble), ms(s.forward_s),
                        ms(s.backward_s), share(s.gpu_share), share(s.at_least_share)});
  }
  return out;
}

TextTable step_table(const model::Pipeline& pipeline, size_t most) {
  TextTable out{.id = "steps",
                .title = pipeline.name.empty() ? base::tr("steps") : base::tr("steps, {}", pipeline.name),
                .about = base::tr("From the first forward to the last backward of all stages."),
                .columns = {{"step", false, kNeverLeftOut},
                            {"ms", true, 8},
                            {"forward jobs", true, 5},
                            {"bubble %", true, 7},
                            {"busiest stage", false, 6}},
                .all_rows = pipeline.steps.size()};
  const size_t first = pipeline.steps.size() - std::min(most, pipeline.steps.size());
  for (size_t i = first; i < pipeline.steps.size(); ++i) {
    const model::PipelineStep& s = pipeline.steps[i];
    out.rows.push_back(
        {fmt::format("{}{}{}", s.number, s.complete ? "" : base::tr(" (incomplete)"),
                     s.at_least ? base::tr(" (timed in part)") : ""),
         ms(s.duration_s), fmt::format("{}", s.jobs), s.complete ? share(s.bubble) : "",
         s.critical < 0 ? "" : fmt::format("{}", pipeline.stages[static_cast<size_t>(s.critical)].stage)});
  }
  for (size_t i = 0; i < pipeline.stages.size() && i < kMostStageColumns; ++i) {
    const model::PipelineStage& stage = pipeline.stages[i];
    out.columns.push_back({base::tr("stage {} bubble %", stage.stage), true, 3});
    for (size_t row = 0; row < out.rows.size(); ++row) {
      const model::PipelineStep& step = pipeline.steps[first + row];
      out.rows[row].push_back(step.complete ? share(step.idle[i]) : "");
    }
  }
  return out;
}

}  // namespace xpurun::report
