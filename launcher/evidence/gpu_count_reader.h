// GpuCountReader: what NVML counts about each GPU of this host, how they are connected, and their Xids.
// Helper processes only (nvml_library.h).
#pragma once

#include "launcher/evidence/gpu_facts.h"
#include "launcher/evidence/nvml_library.h"

#include <memory>
#include <string>
#include <vector>

namespace xpurun::launcher {

class GpuCountReader {
 public:
  static base::Result<GpuCountReader> open(const std::string& library);
  GpuCountReader(GpuCountReader&&) noexcept;
  GpuCountReader& operator=(GpuCountReader&&) noexcept;
  ~GpuCountReader();

  // Of all GPUs. With `all` everything; without, what changes within seconds (reasons, temperature, load,
  // Xids), and the rest as it was at the last full reading.
  const std::vector<GpuCounts>& read(bool all);
  // Between the GPUs; does not change.
  std::vector<model::GpuPath> paths() const;
  // After a full reading; with or without the paths.
  model::GpuInventory inventory(bool with_paths) const;

 private:
  struct State;
  explicit GpuCountReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xpurun::launcher
