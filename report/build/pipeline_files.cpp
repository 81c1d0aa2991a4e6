#include "report/build/pipeline_files.h"

#include "common/base/tr.h"
#include "report/pipeline/files.h"
#include "report/pipeline/view/gantt.h"

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr size_t kMostPictures = 4;
constexpr size_t kMostSteps = 500;

}  // namespace

void add_pipeline(RunReport& report, const JobRuns& job, base::Language language) {
  std::vector<std::string> directories;
  for (const NodeRun& node : job.nodes) {
    if (!node.path.empty()) {
      directories.push_back(node.path + "/ranks");
    }
  }
  PipelineOfRun run = read_pipeline(directories, {});
  if (!run.report) {
    return;
  }
  std::vector<model::Pipeline>& pipelines = run.report->pipelines;
  std::stable_sort(pipelines.begin(), pipelines.end(),
                   [](const model::Pipeline& a, const model::Pipeline& b) { return a.step_s > b.step_s; });
  for (size_t i = 0; i < pipelines.size(); ++i) {
    model::Pipeline& pipeline = pipelines[i];
    if (i < kMostPictures) {
      const base::Speaking speaking(language);
      report.pipeline_svgs.push_back(gantt_svg(pipeline, shown_steps(pipeline), GanttUse::page));
    }
    for (model::PipelineStage& stage : pipeline.stages) {
      stage.jobs.clear();
    }
    const size_t old = pipeline.steps.size() - std::min(pipeline.steps.size(), kMostSteps);
    pipeline.steps.erase(pipeline.steps.begin(), pipeline.steps.begin() + static_cast<std::ptrdiff_t>(old));
  }
  report.pipeline = std::move(run.report);
}

}  // namespace xpurun::report
