// The door to NVML: the loaded library, a session with it, the calls about one GPU. Helper processes only,
// because NVML's calls may block in the driver for minutes.
#pragma once

#include "common/base/result.h"
#include "common/base/strings.h"
#include "launcher/evidence/nvml_prototypes.h"

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct NvmlCloser {
  void operator()(void* handle) const { ::dlclose(handle); }
};
using NvmlLibrary = std::unique_ptr<void, NvmlCloser>;

inline constexpr unsigned kMostDevices = 256;

class Nvml {
 public:
  explicit Nvml(void* library) : library_(library) {}

  // Null if this driver lacks the function.
  template <typename F>
  F find(const char* name) const {
    return reinterpret_cast<F>(::dlsym(library_, name));
  }
  std::string error(nvml::Return code) const;

 private:
  void* library_;
};

template <typename T>
int64_t bounded(T value) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(std::min<uint64_t>(value, kMost));
}

// The calls about one GPU. What the driver or the GPU does not provide is false, -1 or empty.
class NvmlDevice {
 public:
  NvmlDevice(const Nvml& library, nvml::Device device) : nvml_(library), device_(device) {}

  template <typename F, typename... Args>
  bool call(const char* name, Args... args) {
    const auto function = nvml_.find<F>(name);
    if (function == nullptr) {
      return false;
    }
    const nvml::Return code = function(device_, args...);
    // Many GPUs return "not supported" for some queries; only a lost GPU is worth a report.
    if (code == nvml::kGpuIsLost) {
      problem_ = nvml_.error(code);
    }
    return code == nvml::kSuccess;
  }
  std::string text(const char* name);
  int number(const char* name);
  int number_of(const char* name, unsigned which);
  // One of NVML_FI_DEV_*, of a link where `scope` is one.
  int64_t field(unsigned id, unsigned scope = 0);
  // "GPU is lost", after a call that said so.
  const std::string& problem() const { return problem_; }

 private:
  const Nvml& nvml_;
  nvml::Device device_;
  std::string problem_;
};

// From nvmlInit to nvmlShutdown.
class NvmlSession {
 public:
  static base::Result<std::unique_ptr<NvmlSession>> open(const std::string& library);
  ~NvmlSession();
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;

  const Nvml& nvml() const { return nvml_; }
  // By NVML's index; null for a GPU that has no handle.
  const std::vector<nvml::Device>& devices() const { return devices_; }

 private:
  explicit NvmlSession(NvmlLibrary library) : handle_(std::move(library)), nvml_(handle_.get()) {}

  NvmlLibrary handle_;
  Nvml nvml_;
  std::vector<nvml::Device> devices_;
};

}  // namespace xpurun::launcher
