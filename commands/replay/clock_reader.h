// Clock, temperature and power of a GPU through NVML, loaded at run time, while the GPU works. Without NVML
// all readings are unknown.
#pragma once

#include "common/model/speed/throttle_reason.h"

#include <memory>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct ClockReading {
  int sm_mhz = -1;
  int sm_most_mhz = -1;
  int temperature_c = -1;
  double power_w = -1;
  std::vector<model::ThrottleReason> throttle_reasons;
};

class ClockReader {
 public:
  // `bus_id` as CUDA has it: "0000:1B:00.0".
  explicit ClockReader(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
  ~ClockReader();
  ClockReader(const ClockReader&) = delete;
  ClockReader& operator=(const ClockReader&) = delete;

  ClockReading read() const;

 private:
  template <typename F, typename... Args>
  bool call(const char* name, Args... args) const;

  void* library_ = nullptr;
  void* device_ = nullptr;  // null: unknown
};

}  // namespace xpurun::launcher
