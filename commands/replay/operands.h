// The matrices of a replayed matmul on a GPU, without gaps, with random normal data.
#pragma once

#include "commands/replay/gpu.h"
#include "report/replay/problem.h"

namespace xpurun::launcher {

// alpha or beta in any scale type.
struct Scalar {
  alignas(16) unsigned char bytes[16] = {};
};
// 1 or 0 as a number of this cudaDataType_t; supports the types that problem_of() gives.
Scalar scalar(int type, bool one);

struct MatmulOperands {
  GpuBuffer a;
  GpuBuffer b;
  GpuBuffer c;  // empty: D
  GpuBuffer d;
  GpuBuffer bias;       // also where the gradient of a bias goes
  GpuBuffer auxiliary;  // of the epilogue
  GpuBuffer scales;     // of A and B, 1.0 each
  int64_t auxiliary_leading = 0;
};

// The error is a reason for people, such as too little memory.
base::Result<MatmulOperands> make_operands(Gpu& gpu, const report::MatmulProblem& problem);

}  // namespace xpurun::launcher
