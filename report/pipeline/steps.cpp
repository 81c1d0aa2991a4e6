#include "report/pipeline/steps.h"

#include "report/pipeline/jobs/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

namespace {

using model::JobKind;
using model::Pipeline;
using model::PipelineJob;
using model::PipelineStage;

// A job of any stage, or the program's mark that a step of the stage has ended.
struct Event {
  int64_t at_ns = 0;
  size_t stage = 0;
  PipelineJob* job = nullptr;  // null: a mark
};

std::vector<Event> events_of(Pipeline& pipeline, const std::vector<std::vector<int64_t>>& marks_ns) {
  std::vector<Event> out;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    for (PipelineJob& job : pipeline.stages[s].jobs) {
      out.push_back({job.begin_ns, s, &job});
    }
    for (const int64_t mark : marks_ns[s]) {
      out.push_back({mark, s, nullptr});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Event& a, const Event& b) { return a.at_ns < b.at_ns; });
  return out;
}

bool ends_step(const Event& event) {
  return event.job == nullptr || event.job->kind == JobKind::optimizer;
}

int assign_steps(Pipeline& pipeline, const std::vector<Event>& events) {
  const bool has_ends = std::any_of(events.begin(), events.end(), ends_step);
  std::vector<int> open(pipeline.stages.size(), 0);  // forward jobs without a backward job
  bool ended = false;
  int step = -1;
  for (const Event& event : events) {
    if (ends_step(event)) {
      ended = true;
      open[event.stage] = 0;
    }
    if (event.job == nullptr) {
      continue;
    }
    if (event.job->kind == JobKind::forward) {
      const bool quiet = std::all_of(open.begin(), open.end(), [](int n) { return n == 0; });
      if (step < 0 || (quiet && (ended || !has_ends))) {
        ++step;
        ended = false;
      }
      ++open[event.stage];
    } else if (event.job->kind == JobKind::backward) {
      open[event.stage] = std::max(0, open[event.stage] - 1);
    }
    event.job->step = step;
  }
  return step + 1;
}

void number_jobs(PipelineStage& stage) {
  std::map<std::pair<int, JobKind>, int> counts;  // by step
  for (PipelineJob& job : stage.jobs) {
    const int nth = counts[{job.step, job.kind}]++;
    if (job.micro_batch < 0 && is_pass(job.kind)) {
      job.micro_batch = nth;
    }
    job.number = job.number >= 0 ? job.number : job.micro_batch >= 0 ? job.micro_batch : nth;
    if (job.type.empty()) {
      job.type =
          fmt::format("{}{}", model::name_of(job.kind), job.chunk < 0 ? "" : fmt::format("{}", job.chunk));
    }
  }
}

}  // namespace

void find_steps(Pipeline& pipeline, const std::vector<std::vector<int64_t>>& marks_ns) {
  const std::vector<Event> events = events_of(pipeline, marks_ns);
  const int steps = assign_steps(pipeline, events);
  for (int step = 0; step < steps; ++step) {
    pipeline.steps.push_back({.number = step});
  }
  for (PipelineStage& stage : pipeline.stages) {
    number_jobs(stage);
  }
}

}  // namespace xpurun::report
