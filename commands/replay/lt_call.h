// A matmul through cuBLASLt, for matmul_libraries.cpp.
#pragma once

#include "commands/replay/operands.h"
#include "commands/replay/prepared_call.h"

#include <memory>

namespace xpurun::launcher {

struct LtPlace {
  Gpu& gpu;
  const vendor::Lt& lt;
  void* handle;
  const GpuBuffer& workspace;
};
base::Result<std::unique_ptr<PreparedCall>> make_lt_call(const LtPlace& place,
                                                         const report::MatmulProblem& problem,
                                                         const MatmulOperands& operands);

}  // namespace xpurun::launcher
