// PipelineReport: forward, backward and optimizer jobs of each stage of a training pipeline, its steps and
// its bubbles. The output of `xpurun pipeline --format json`, schema "xpurun.pipeline/1"; also a part of
// report.json, without the jobs. docs/pipeline.md explains the numbers.
#pragma once

#include "common/base/ids.h"
#include "common/model/names.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kPipelineSchema = "xpurun.pipeline/1";

enum class JobKind : uint8_t {
  forward,
  backward,  // whole, or the part that gives the gradient of the input
  weight,    // the part of backward that gives the gradient of the weights
  optimizer,
  other,
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<JobKind> = {"forward", "backward", "weight",
                                                                    "optimizer", "other"};

// How the jobs of a stage are known.
enum class JobSource : uint8_t {
  calls,      // from point-to-point operations and calls of backward
  functions,  // calls of traced functions
  marks,      // the program said so
  log,        // lines of a log that Paddle wrote
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<JobSource> = {"calls", "functions", "marks", "log"};

struct PipelineJob {
  JobKind kind = JobKind::other;
  std::string type;  // "forward"; Paddle's own word of a log: "forward0", "lr"
  int64_t number = 0;
  int micro_batch = -1;   // from 0; negative: none
  int chunk = -1;         // of the stages that one rank holds; negative: unknown
  int step = -1;          // index into Pipeline::steps; negative: outside of all steps
  bool gpu = false;       // begin and end are GPU time, otherwise host time
  bool at_least = false;  // a part of its work on the GPU was not timed, so that it may have lasted longer
  int64_t begin_ns = 0;   // since PipelineReport::begin_ns
  int64_t duration_ns = 0;

  int64_t end_ns() const { return begin_ns + duration_ns; }
};

// One rank of a pipeline. Medians are over complete steps; those in which all jobs were timed whole, if there
// are such.
struct PipelineStage {
  int stage = 0;
  base::Rank rank = base::kNoRank;  // Paddle: the position of the log among all
  int device = -1;                  // Paddle: number of the log; negative: no log
  int machine = -1;                 // Paddle: number of the folder machineK; negative: there is none
  std::string host;
  JobSource source = JobSource::calls;
  double forward_s = 0;  // median of a job
  double backward_s = 0;
  double busy_s = 0;          // of a step in forward and backward jobs
  double bubble = 0;          // share of a step outside of these; 0 without a complete step
  double gpu_share = 0;       // of the jobs that are known in GPU time
  double at_least_share = 0;  // of the jobs that may have lasted longer
  std::vector<PipelineJob> jobs;
};

// From the first forward to the last backward of all stages.
struct PipelineStep {
  int64_t number = 0;
  double begin_s = 0;  // since PipelineReport::begin_ns
  double duration_s = 0;
  bool complete = false;     // every stage has as many backward jobs as forward jobs, and all stages the same
  bool at_least = false;     // jobs may have lasted longer: the bubbles are upper limits
  int jobs = 0;              // forward jobs of a stage: micro-batches times chunks
  double bubble = 0;         // mean of the stages
  int critical = -1;         // index of the busiest stage; negative: not complete
  std::vector<double> idle;  // by stage: share of the step outside of forward and backward jobs
};

struct Pipeline {
  std::string name;  // "dp1"; empty if there is one pipeline
  std::vector<PipelineStage> stages;
  std::vector<PipelineStep> steps;
  bool at_least = false;  // jobs of the counted steps may have lasted longer: bubbles are upper limits
  double step_s = 0;      // median duration of a complete step
  double bubble = 0;      // mean of the stages
  double schedule = 0;    // bubble of equal stages: (p - 1) / (jobs + p - 1)
  int critical = -1;      // index of the stage that sets the pace; negative: none stands out
  double saving_s = 0;    // what a step would save at most if that stage were as busy as the second
  std::string sentence;
};

struct PipelineReport {
  int64_t begin_ns = 0;  // wall time of the first job, since 1970
  std::string sentence;  // of the pipeline with the longest steps
  std::vector<Pipeline> pipelines;
  std::vector<std::string> notes;  // damaged input, unknown clocks
};

nlohmann::ordered_json to_json(const PipelineReport& report);

}  // namespace xpurun::model
