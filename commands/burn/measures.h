// What `xpurun doctor --burn` measured on the GPUs of this host. Plain data.
#pragma once

#include "common/model/evidence/gpu_inventory.h"
#include "common/model/names.h"
#include "common/model/speed/gpu_capture.h"
#include "report/run/run_report.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

enum class BurnWork {
  matmul,    // bf16, all GPUs at once; FLOP/s
  memory,    // copies inside of the GPU's memory, all GPUs at once; bytes/s, read and written
  to_gpu,    // from pinned memory of the host, one GPU after the other; bytes/s
  from_gpu,  // the other way
  peer,      // to the next GPU; bytes/s
};

}  // namespace xpurun::launcher

namespace xpurun::model {
template <>
inline constexpr std::array<std::string_view, 5> kNames<launcher::BurnWork> = {"matmul", "memory", "to_gpu",
                                                                               "from_gpu", "peer"};
}  // namespace xpurun::model

namespace xpurun::launcher {

inline constexpr size_t kBurnWorks = 5;

struct BurnedGpu {
  model::GpuUnit unit;                                // index: NVML's, or else CUDA's
  std::array<std::vector<double>, kBurnWorks> rates;  // of each round
  double peak_flops = 0;                              // of the data sheet; 0: unknown
  model::GpuClocks clocks;                            // while the matmuls ran
  int memory_clock_mhz = -1;
  bool is_shared = false;             // other processes compute on the GPU, too
  std::vector<base::Pid> other_pids;  // theirs, where the driver's numbers are those of this host
  std::vector<uint64_t> results;      // hash of the sum of all products of a round; equal work, equal bits
  int bad_copies = 0;                 // copies that differ from what was copied
  std::string problem;                // why the GPU could not be measured to the end
};

struct Burn {
  double seconds = 0;
  std::vector<BurnedGpu> gpus;
  double bus_bytes_s = -1;             // of all-reduces over all GPUs, bus bandwidth; negative: not measured
  bool all_reduce_differs = false;     // the GPUs have different results of one all-reduce
  std::vector<std::string> notes;      // what was left out, and why
  std::string cublas;                  // "13.0.2: /path"
  std::vector<report::Finding> found;  // what NVML says about the GPUs, before and meanwhile
};

}  // namespace xpurun::launcher
