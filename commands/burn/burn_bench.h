// Works on all GPUs of this host through CUDA, cuBLAS and NCCL, and measures. Every result is compared: a
// matmul adds to a sum, so that an error in any call is in the sum's bits. In a child process, because a
// broken driver may block.
#pragma once

#include "commands/burn/measures.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct BurnPlan {
  double seconds = 60;
  std::string python = "python3";  // whose packages have cuBLAS and NCCL
};

// The error says why no GPU can be used; the problem of one GPU is in its entry.
base::Result<Burn> burn_gpus(const BurnPlan& plan);

}  // namespace xpurun::launcher
