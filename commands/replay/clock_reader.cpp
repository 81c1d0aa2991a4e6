#include "commands/replay/clock_reader.h"

#include "launcher/evidence/nvml_prototypes.h"

#include <dlfcn.h>

namespace xpurun::launcher {

namespace {

using HandleByBusId = nvml::Return (*)(const char*, nvml::Device*);

template <typename F>
F find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<F>(::dlsym(library, name));
}

}  // namespace

ClockReader::ClockReader(const std::string& bus_id, const std::string& library)
    : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  const auto init = find<nvml::Init>(library_, "nvmlInit_v2");
  const auto by_bus_id = find<HandleByBusId>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  if (init != nullptr && by_bus_id != nullptr && init() == nvml::kSuccess &&
      by_bus_id(bus_id.c_str(), &device_) != nvml::kSuccess) {
    device_ = nullptr;
  }
}

ClockReader::~ClockReader() {
  if (const auto shutdown = find<nvml::Init>(library_, "nvmlShutdown");
      device_ != nullptr && shutdown != nullptr) {
    shutdown();
  }
  if (library_ != nullptr) {
    ::dlclose(library_);
  }
}

template <typename F, typename... Args>
bool ClockReader::call(const char* name, Args... args) const {
  const auto function = find<F>(library_, name);
  return function != nullptr && function(device_, args...) == nvml::kSuccess;
}

ClockReading ClockReader::read() const {
  ClockReading out;
  if (device_ == nullptr) {
    return out;
  }
  unsigned value = 0;
  if (call<nvml::NumberOf>("nvmlDeviceGetClockInfo", nvml::kClockSm, &value)) {
    out.sm_mhz = static_cast<int>(value);
  }
  if (call<nvml::NumberOf>("nvmlDeviceGetMaxClockInfo", nvml::kClockSm, &value)) {
    out.sm_most_mhz = static_cast<int>(value);
  }
  if (call<nvml::NumberOf>("nvmlDeviceGetTemperature", nvml::kSensorGpu, &value)) {
    out.temperature_c = static_cast<int>(value);
  }
  if (call<nvml::Number>("nvmlDeviceGetPowerUsage", &value)) {
    out.power_w = value / 1000.0;
  }
  unsigned long long bits = 0;
  // Drivers before 535 have the older name.
  if (call<nvml::Bits>("nvmlDeviceGetCurrentClocksEventReasons", &bits) ||
      call<nvml::Bits>("nvmlDeviceGetCurrentClocksThrottleReasons", &bits)) {
    out.throttle_reasons = model::throttle_reasons_of(bits);
  }
  return out;
}

}  // namespace xpurun::launcher
