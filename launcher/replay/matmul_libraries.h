// Makes matmuls ready: through cuBLAS, or through cuBLASLt with the algorithm that its heuristic chooses, as
// PyTorch does. Workspaces have PyTorch's sizes.
#pragma once

#include "launcher/replay/operands.h"
#include "launcher/replay/prepared_call.h"

#include <memory>
#include <string>

namespace xpurun::launcher {

// The libraries with their handles for one GPU. The Gpu and the functions must stay alive.
class MatmulLibraries {
 public:
  static base::Result<std::unique_ptr<MatmulLibraries>> open(Gpu& gpu, const vendor::Blas& blas,
                                                             const vendor::Lt& lt);
  ~MatmulLibraries();
  MatmulLibraries(const MatmulLibraries&) = delete;
  MatmulLibraries& operator=(const MatmulLibraries&) = delete;

  // `operands` must stay alive. The error is a reason for people.
  base::Result<std::unique_ptr<PreparedCall>> prepare(const report::MatmulProblem& problem,
                                                      const MatmulOperands& operands);
  // "13.0.2" of cuBLAS
  const std::string& version() const { return version_; }

 private:
  MatmulLibraries(Gpu& gpu, const vendor::Blas& blas, const vendor::Lt& lt)
      : gpu_(gpu), blas_(blas), lt_(lt) {}
  base::Status set_up();

  Gpu& gpu_;
  const vendor::Blas& blas_;
  const vendor::Lt& lt_;
  void* blas_handle_ = nullptr;
  void* lt_handle_ = nullptr;
  GpuBuffer blas_workspace_;
  GpuBuffer lt_workspace_;
  std::string version_;
};

}  // namespace xpurun::launcher
