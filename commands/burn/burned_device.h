// One GPU in a burn: its matmul with operands, its buffers for copies. Single-threaded.
#pragma once

#include "commands/burn/host_buffer.h"
#include "commands/replay/libraries.h"
#include "commands/replay/matmul_libraries.h"

#include <cstdint>
#include <memory>

namespace xpurun::launcher {

inline constexpr int kBurnCompute = 68;  // CUBLAS_COMPUTE_32F

class BurnedDevice {
 public:
  // `driver`, `blas` and `lt` must stay alive.
  static base::Result<std::unique_ptr<BurnedDevice>> open(const vendor::Driver& driver,
                                                          const vendor::Blas& blas, const vendor::Lt& lt,
                                                          int index);

  ~BurnedDevice();
  BurnedDevice(const BurnedDevice&) = delete;
  BurnedDevice& operator=(const BurnedDevice&) = delete;

  Gpu& gpu() { return *gpu_; }
  const report::MatmulProblem& problem() const { return problem_; }
  const std::string& cublas() const { return libraries_->version(); }
  double flop() const;
  size_t copy_bytes() const { return from_.bytes(); }

  // The sum of the products becomes zero.
  base::Status clear_sum();
  base::Status multiply() { return call_->run(); }
  // Hash of the sum's bits. Waits for the GPU.
  base::Result<uint64_t> hash_of_sum();

  // Allocates the buffers for copies; before, the operands of the matmul go.
  base::Status prepare_copies(const std::vector<std::byte>& block);
  base::Status copy_inside();
  base::Status copy_in(const HostBuffer& from);
  base::Status copy_out(const HostBuffer& to);
  base::Status copy_to(BurnedDevice& other);
  // Hash of what a copy inside of the GPU, or from another one, has written.
  base::Result<uint64_t> hash_of_copy();
  base::Result<uint64_t> hash_of_source();
  base::Status clear_copy();

 private:
  BurnedDevice() = default;
  base::Status check(int error, const char* doing) const;
  base::Result<uint64_t> hash_of(const GpuBuffer& buffer);

  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<MatmulLibraries> libraries_;
  report::MatmulProblem problem_;
  MatmulOperands operands_;
  std::unique_ptr<PreparedCall> call_;
  GpuBuffer from_;
  GpuBuffer to_;
  HostBuffer seen_;  // what was read of the GPU
};

}  // namespace xpurun::launcher
