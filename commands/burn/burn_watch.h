// What NVML says about the GPUs while they work in a burn. Without NVML everything stays unknown.
#pragma once

#include "commands/burn/measures.h"
#include "launcher/evidence/clock_helper.h"

#include <memory>
#include <optional>
#include <vector>

namespace xpurun::launcher {

class BurnWatch {
 public:
  explicit BurnWatch(const std::string& library = std::string(kNvmlLibrary));

  // Clocks, power, temperature and reasons of a moment in which all GPUs compute.
  void sample();
  // Errors and states.
  void look();
  // Units, clocks and findings into the entries; those are found by their UUIDs.
  void finish(Burn& burn);

 private:
  std::optional<GpuSpeeds> speeds_;
  std::optional<WatchLines> lines_;
  ClockSummary summary_;
  std::vector<model::GpuDevice> newest_;
  model::GpuHealth health_;
};

}  // namespace xpurun::launcher
