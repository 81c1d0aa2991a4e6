// A matmul that is ready to be called again and again.
#pragma once

#include "common/base/result.h"

namespace xpurun::launcher {

class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  // Puts one call on the GPU's stream.
  virtual base::Status run() = 0;
};

// The error of a cublasStatus_t other than 0, as a reason for people.
base::Status check_blas(int status, const char* function);

}  // namespace xpurun::launcher
