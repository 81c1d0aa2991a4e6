#include "report/pipeline/bubbles.h"

#include "report/pipeline/jobs/jobs.h"
#include "report/speed/primitives/intervals.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace xpurun::report {

namespace {

using model::JobKind;
using model::Pipeline;
using model::PipelineJob;
using model::PipelineStage;
using model::PipelineStep;

constexpr double kNsPerS = 1e9;

// One stage in one step.
struct Part {
  std::vector<Interval> passes;
  int forwards = 0;
  int backwards = 0;
  bool at_least = false;   // a pass may have lasted longer
  bool all_on_gpu = true;  // all passes are in GPU time
  double busy_s() const { return static_cast<double>(length_of(united(passes))) / kNsPerS; }
};

// By step, then by stage.
std::vector<std::vector<Part>> parts_of(const Pipeline& pipeline) {
  std::vector<std::vector<Part>> out(pipeline.steps.size(), std::vector<Part>(pipeline.stages.size()));
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    for (const PipelineJob& job : pipeline.stages[s].jobs) {
      if (job.step < 0 || !is_pass(job.kind)) {
        continue;
      }
      Part& part = out[static_cast<size_t>(job.step)][s];
      part.passes.push_back({job.begin_ns, job.end_ns()});
      part.forwards += job.kind == JobKind::forward ? 1 : 0;
      part.backwards += job.kind == JobKind::backward ? 1 : 0;
      part.at_least = part.at_least || job.at_least;
      part.all_on_gpu = part.all_on_gpu && job.gpu;
    }
  }
  return out;
}

void measure_step(PipelineStep& step, const std::vector<Part>& parts) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  step.jobs = parts.front().forwards;
  step.complete = step.jobs > 0;
  for (const Part& part : parts) {
    step.complete = step.complete && part.forwards == step.jobs && part.backwards == step.jobs;
    step.at_least = step.at_least || part.at_least;
    for (const Interval& pass : part.passes) {
      begin = std::min(begin, pass.begin);
      end = std::max(end, pass.end);
    }
  }
  if (begin >= end) {
    step.complete = false;
    return;
  }
  step.begin_s = static_cast<double>(begin) / kNsPerS;
  step.duration_s = static_cast<double>(end - begin) / kNsPerS;
  double most = 0;
  for (size_t s = 0; s < parts.size(); ++s) {
    const double busy = parts[s].busy_s();
    step.idle.push_back(std::max(0.0, 1 - busy / step.duration_s));
    if (busy > most) {
      most = busy;
      step.critical = static_cast<int>(s);
    }
  }
  step.bubble =
      std::accumulate(step.idle.begin(), step.idle.end(), 0.0) / static_cast<double>(step.idle.size());
}

// A file that begins inside of a step gives steps with too few jobs: only the usual number counts.
int usual_jobs(const std::vector<PipelineStep>& steps) {
  std::map<int, int> counts;
  for (const PipelineStep& step : steps) {
    counts[step.jobs] += step.complete ? 1 : 0;
  }
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? 0 : most->first;
}

// The steps that medians are taken over: the complete ones whose jobs all were timed whole on the GPU, if
// there are such, else all complete ones.
std::vector<bool> counted_steps(const std::vector<PipelineStep>& steps,
                                const std::vector<std::vector<Part>>& parts) {
  std::vector<bool> whole;
  std::vector<bool> complete;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool on_gpu =
        std::all_of(parts[i].begin(), parts[i].end(), [](const Part& p) { return p.all_on_gpu; });
    complete.push_back(steps[i].complete);
    whole.push_back(steps[i].complete && on_gpu && !steps[i].at_least);
  }
  return std::find(whole.begin(), whole.end(), true) != whole.end() ? whole : complete;
}

double median_duration(const PipelineStage& stage, const std::vector<bool>& counted, JobKind kind) {
  std::vector<double> out;
  for (const PipelineJob& job : stage.jobs) {
    if (job.kind == kind && job.step >= 0 && counted[static_cast<size_t>(job.step)]) {
      out.push_back(static_cast<double>(job.duration_ns) / kNsPerS);
    }
  }
  return median(std::move(out));
}

double share_of(const std::vector<PipelineJob>& jobs, bool PipelineJob::*what) {
  const auto count =
      std::count_if(jobs.begin(), jobs.end(), [&](const PipelineJob& job) { return job.*what; });
  return jobs.empty() ? 0 : static_cast<double>(count) / static_cast<double>(jobs.size());
}

void measure_stage(Pipeline& pipeline, size_t s, const std::vector<std::vector<Part>>& parts,
                   const std::vector<bool>& counted) {
  PipelineStage& stage = pipeline.stages[s];
  std::vector<double> busy;
  std::vector<double> idle;
  for (size_t i = 0; i < pipeline.steps.size(); ++i) {
    if (counted[i]) {
      busy.push_back(parts[i][s].busy_s());
      idle.push_back(pipeline.steps[i].idle[s]);
    }
  }
  stage.busy_s = median(std::move(busy));
  stage.bubble = median(std::move(idle));
  stage.forward_s = median_duration(stage, counted, JobKind::forward);
  stage.backward_s = median_duration(stage, counted, JobKind::backward);
  stage.gpu_share = share_of(stage.jobs, &PipelineJob::gpu);
  stage.at_least_share = share_of(stage.jobs, &PipelineJob::at_least);
}

// A step lasts as long as the busiest stage works, besides filling and draining the pipeline. So at most the
// excess of that stage can be saved; a part of it may hide behind the filling.
void find_critical(Pipeline& pipeline) {
  double most = 0;
  double second = 0;
  int busiest = -1;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const double busy = pipeline.stages[s].busy_s;
    if (busy > most) {
      second = most;
      most = busy;
      busiest = static_cast<int>(s);
    } else {
      second = std::max(second, busy);
    }
  }
  if (second > 0 && most >= (1 + kLeastExcess) * second) {
    pipeline.critical = busiest;
    pipeline.saving_s = most - second;
  }
}

}  // namespace

double bubble_of_schedule(size_t stages, int jobs) {
  const auto filling = static_cast<double>(stages) - 1;
  return stages == 0 || jobs <= 0 ? 0 : filling / (jobs + filling);
}

void measure(Pipeline& pipeline) {
  if (pipeline.stages.empty()) {
    return;
  }
  const std::vector<std::vector<Part>> parts = parts_of(pipeline);
  for (size_t i = 0; i < pipeline.steps.size(); ++i) {
    measure_step(pipeline.steps[i], parts[i]);
  }
  const int jobs = usual_jobs(pipeline.steps);
  for (PipelineStep& step : pipeline.steps) {
    step.complete = step.complete && step.jobs == jobs;
    step.critical = step.complete ? step.critical : -1;
  }
  const std::vector<bool> counted = counted_steps(pipeline.steps, parts);
  std::vector<double> durations;
  for (size_t i = 0; i < pipeline.steps.size(); ++i) {
    if (counted[i]) {
      durations.push_back(pipeline.steps[i].duration_s);
      pipeline.at_least = pipeline.at_least || pipeline.steps[i].at_least;
    }
  }
  const bool any = !durations.empty();
  pipeline.step_s = median(std::move(durations));
  double sum = 0;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    measure_stage(pipeline, s, parts, counted);
    sum += pipeline.stages[s].bubble;
  }
  if (any) {
    pipeline.bubble = sum / static_cast<double>(pipeline.stages.size());
    pipeline.schedule = bubble_of_schedule(pipeline.stages.size(), jobs);
    find_critical(pipeline);
  }
}

}  // namespace xpurun::report
