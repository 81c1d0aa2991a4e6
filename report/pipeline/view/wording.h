// A pipeline in words and tables, for the terminal and the page. Pure.
#pragma once

#include "common/model/speed/pipeline.h"
#include "report/operations/tables/text_tables.h"

#include <string>

namespace xpurun::report {

// "the stages are idle 27 % of a step of 120 ms; equal stages would be 27 % with 8 micro-batches; stage 1
// (rank 1) sets the pace: ..."
std::string pipeline_sentence(const model::Pipeline& pipeline);
// That of the slowest, when all have theirs.
std::string pipelines_sentence(const model::PipelineReport& report);

// "rank 3", "GPU0", "GPU0(machine:1)" for a log of Paddle.
std::string place_words(const model::PipelineStage& stage);

// A row for each stage. `most` rows.
TextTable stage_table(const model::Pipeline& pipeline, size_t most);
// A row for each step, the last ones.
TextTable step_table(const model::Pipeline& pipeline, size_t most);

// The origin of the jobs' times: "jobs from traced functions, in GPU time".
std::string source_words(const model::Pipeline& pipeline);

}  // namespace xpurun::report
