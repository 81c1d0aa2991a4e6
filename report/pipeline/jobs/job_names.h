// Which functions are jobs of a pipeline, and how marks of the program name the micro-batch. Pure.
#pragma once

#include "common/model/speed/pipeline.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// Functions that the user named, beside the known ones; as in --trace-python.
struct JobFunctions {
  std::vector<std::string> forward;
  std::vector<std::string> backward;
};

// The kind of job that a traced function is ("package.module:Class.method"): by the user's names, else by
// the last part of the name: torch.distributed.pipelining, Megatron, DeepSpeed and Paddle have functions for
// one micro-batch.
std::optional<model::JobKind> kind_of_function(std::string_view name, const JobFunctions& chosen);

// The names of the spans that forward() and backward() of the module `xpurun` write.
struct MarkedBatch {
  int micro_batch = -1;
  int chunk = -1;  // negative: not said
};
// "micro-batch 3", "micro-batch 3 chunk 1"; nothing for other names.
std::optional<MarkedBatch> marked_batch(std::string_view name);

}  // namespace xpurun::report
