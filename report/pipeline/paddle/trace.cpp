#include "report/pipeline/paddle/trace.h"

#include "common/model/json/json_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace xpurun::report {

namespace {

using Json = nlohmann::ordered_json;
using model::JobKind;

// Numbers of Perfetto's rows, as Paddle's tool gives them.
constexpr int kStepRow = 2333;

// Names of colours of chrome://tracing; empty: its own choice.
std::string_view colour_of(JobKind kind, std::string_view type) {
  switch (kind) {
    case JobKind::forward:
      return "thread_state_running";
    case JobKind::backward:
    case JobKind::weight:
      return "rail_idle";
    case JobKind::optimizer:
      return "rail_response";
    case JobKind::other:
      break;
  }
  return type == "default" ? "thread_state_unknown" : "";
}

std::string row_name(const model::PipelineStage& stage, std::string_view separator) {
  const int gpu = stage.device >= 0 ? stage.device : static_cast<int>(stage.rank);
  return fmt::format("GPU{}{}{}", separator, gpu,
                     stage.machine < 0 ? "" : fmt::format("(machine:{})", stage.machine));
}

class Writer {
 public:
  Writer(OutputFile& out, const model::PipelineReport& report, PaddleTrace form, JobNames names)
      : out_(out), report_(report), form_(form), names_(names) {}

  void write() {
    out_.write("{\"traceEvents\": [");
    int row = kStepRow;
    for (const model::Pipeline& pipeline : report_.pipelines) {
      for (const model::PipelineStage& stage : pipeline.stages) {
        ++row;
        put_stage(stage, form_ == PaddleTrace::chrome ? Json(row_name(stage, "")) : Json(row));
      }
    }
    put_steps(form_ == PaddleTrace::chrome ? Json("Step") : Json(kStepRow));
    if (form_ == PaddleTrace::perfetto) {
      put_names();
    }
    out_.write("]}");
  }

 private:
  void put(const Json& event, int64_t at_ns) {
    out_.write(first_ ? "" : ", ");
    first_ = false;
    std::string text = model::json_text(event);
    text.pop_back();
    // Microseconds. As a double, the time of day would lose its fraction.
    out_.write(fmt::format("{},\"ts\":{}.{:03}}}", text, at_ns / 1'000, at_ns % 1'000));
  }

  void put_pair(const std::string& name, std::string_view category, const Json& row, int64_t begin_ns,
                int64_t end_ns, std::string_view colour) {
    const auto ms = static_cast<double>(end_ns - begin_ns) / 1e6;
    const std::string shown = names_ == JobNames::plain ? name : fmt::format("{} ({:.3f} ms)", name, ms);
    Json event{{"name", shown}, {"cat", category}, {"ph", "B"}, {"pid", 0}, {"tid", row}};
    if (!colour.empty()) {
      event["cname"] = colour;
    }
    put(event, report_.begin_ns + begin_ns);
    event["ph"] = "E";
    put(event, report_.begin_ns + end_ns);
  }

  void put_stage(const model::PipelineStage& stage, const Json& row) {
    for (const model::PipelineJob& job : stage.jobs) {
      put_pair(fmt::format("{}_{}", job.type, job.number), job.type, row, job.begin_ns, job.end_ns(),
               colour_of(job.kind, job.type));
    }
  }

  // From the first job of all stages to the last, but not before the end of the previous step.
  void put_steps(const Json& row) {
    struct Extent {
      int64_t number = 0;
      int64_t begin_ns = std::numeric_limits<int64_t>::max();
      int64_t end_ns = std::numeric_limits<int64_t>::min();
    };
    std::vector<Extent> steps;
    for (const model::Pipeline& pipeline : report_.pipelines) {
      for (size_t i = steps.size(); i < pipeline.steps.size(); ++i) {
        steps.push_back({.number = pipeline.steps[i].number});
      }
      for (const model::PipelineStage& stage : pipeline.stages) {
        for (const model::PipelineJob& job : stage.jobs) {
          if (job.step >= 0) {
            Extent& step = steps[static_cast<size_t>(job.step)];
            step.begin_ns = std::min(step.begin_ns, job.begin_ns);
            step.end_ns = std::max(step.end_ns, job.end_ns());
          }
        }
      }
    }
    int64_t last_end = std::numeric_limits<int64_t>::min();
    for (const Extent& step : steps) {
      last_end = std::max(last_end, step.begin_ns);
      put_pair(fmt::format("step{}", step.number), "step", row, last_end, std::max(last_end, step.end_ns),
               colour_of(JobKind::other, "default"));
      last_end = std::max(last_end, step.end_ns);
    }
  }

  void put_name(const std::string& name, int row) {
    put({{"args", {{"name", name}}},
         {"cat", "__metadata"},
         {"name", "thread_name"},
         {"ph", "M"},
         {"pid", 0},
         {"tid", row}},
        0);
  }

  void put_names() {
    put_name("STEP", kStepRow);
    int row = kStepRow;
    for (const model::Pipeline& pipeline : report_.pipelines) {
      for (const model::PipelineStage& stage : pipeline.stages) {
        put_name(row_name(stage, ":"), ++row);
      }
    }
  }

  OutputFile& out_;
  const model::PipelineReport& report_;
  PaddleTrace form_;
  JobNames names_;
  bool first_ = true;
};

}  // namespace

void write_paddle_trace(OutputFile& out, const model::PipelineReport& report, PaddleTrace form,
                        JobNames names) {
  Writer(out, report, form, names).write();
}

}  // namespace xpurun::report
