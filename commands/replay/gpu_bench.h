// The benches on real GPUs.
#pragma once

#include "commands/replay/bench.h"
#include "commands/replay/matmul_libraries.h"

#include <memory>
#include <string>
#include <vector>

namespace xpurun::launcher {

class GpuMatmulBench : public MatmulBench {
 public:
  // Gpu and libraries must stay alive.
  GpuMatmulBench(Gpu& gpu, MatmulLibraries& libraries);

  base::Status prepare(const report::MatmulProblem& problem) override;
  base::Result<std::vector<double>> repeat(int calls, int overwrites) override;
  double overwrite_ns() const override { return gpu_.overwrite_ns(); }
  const ClockReading& clock() const override { return clock_; }

 private:
  Gpu& gpu_;
  MatmulLibraries& libraries_;
  ClockReader reader_;
  ClockReading clock_;
  MatmulOperands operands_;
  std::unique_ptr<PreparedCall> call_;
  double pair_ns_ = 0;  // what the events add to a duration
};

class GpuCollectiveBench : public CollectiveBench {
 public:
  // All GPUs of this machine. The driver and NCCL must stay alive.
  static base::Result<std::unique_ptr<GpuCollectiveBench>> open(const vendor::Driver& driver,
                                                                const vendor::Nccl& nccl);
  ~GpuCollectiveBench() override;
  GpuCollectiveBench(const GpuCollectiveBench&) = delete;
  GpuCollectiveBench& operator=(const GpuCollectiveBench&) = delete;

  int devices() const override { return static_cast<int>(places_.size()); }
  base::Status prepare(const report::CollectiveProblem& problem) override;
  base::Result<std::vector<double>> repeat(int calls) override;
  // Hashes of the first bytes that each GPU has received, `most` at the most.
  base::Result<std::vector<uint64_t>> hashes(size_t most);
  // "2.28.9" of NCCL
  std::string version() const;

 private:
  struct Place {
    std::unique_ptr<Gpu> gpu;
    void* comm = nullptr;
    GpuBuffer send;
    GpuBuffer receive;
  };

  explicit GpuCollectiveBench(const vendor::Nccl& nccl) : nccl_(nccl) {}
  base::Status launch();
  int call(const Place& place) const;

  const vendor::Nccl& nccl_;
  std::vector<Place> places_;
  report::CollectiveProblem problem_;
};

}  // namespace xpurun::launcher
