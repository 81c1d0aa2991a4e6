#include "launcher/evidence/nvml_library.h"

#include <fmt/format.h>

namespace xpurun::launcher {

std::string Nvml::error(nvml::Return code) const {
  const auto text = find<nvml::ErrorString>("nvmlErrorString");
  return text != nullptr ? base::sanitize(text(code)) : fmt::format("NVML error {}", code);
}

std::string NvmlDevice::text(const char* name) {
  char buffer[96] = {};
  const bool good = call<nvml::Text>(name, buffer, static_cast<unsigned>(sizeof buffer));
  buffer[sizeof buffer - 1] = 0;
  return good ? base::sanitize(buffer) : std::string();
}

int NvmlDevice::number(const char* name) {
  unsigned value = 0;
  return call<nvml::Number>(name, &value) ? static_cast<int>(value) : -1;
}

int NvmlDevice::number_of(const char* name, unsigned which) {
  unsigned value = 0;
  return call<nvml::NumberOf>(name, which, &value) ? static_cast<int>(value) : -1;
}

int64_t NvmlDevice::field(unsigned id, unsigned scope) {
  nvml::FieldValue value{};
  value.id = id;
  value.scope = scope;
  if (!call<nvml::FieldValues>("nvmlDeviceGetFieldValues", 1, &value) || value.result != nvml::kSuccess) {
    return -1;
  }
  switch (value.type) {
    case nvml::kFieldUnsigned:
      return value.value.number;
    case nvml::kFieldUnsignedLong:
    case nvml::kFieldUnsignedLongLong:
      return bounded(value.value.long_number);
    default:
      return -1;
  }
}

base::Result<std::unique_ptr<NvmlSession>> NvmlSession::open(const std::string& library) {
  NvmlLibrary handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) {
    return base::fail(fmt::format("{} is not installed", library));
  }
  const Nvml lib(handle.get());
  const auto init = lib.find<nvml::Init>("nvmlInit_v2");
  const auto count_devices = lib.find<nvml::Count>("nvmlDeviceGetCount_v2");
  const auto by_index = lib.find<nvml::HandleByIndex>("nvmlDeviceGetHandleByIndex_v2");
  if (init == nullptr || count_devices == nullptr || by_index == nullptr) {
    return base::fail(fmt::format("{} lacks the functions of NVML", library));
  }
  if (const nvml::Return code = init(); code != nvml::kSuccess) {
    return base::fail(fmt::format("NVML cannot be used: {}", lib.error(code)));
  }
  std::unique_ptr<NvmlSession> out(new NvmlSession(std::move(handle)));
  unsigned count = 0;
  count_devices(&count);
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    nvml::Device device = nullptr;
    out->devices_.push_back(by_index(i, &device) == nvml::kSuccess ? device : nullptr);
  }
  return out;
}

NvmlSession::~NvmlSession() {
  if (const auto shutdown = nvml_.find<nvml::Init>("nvmlShutdown")) {
    shutdown();
  }
}

}  // namespace xpurun::launcher
