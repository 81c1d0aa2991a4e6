#include "launcher/evidence/nvml.h"

#include "common/base/strings.h"
#include "launcher/evidence/nvml_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <dlfcn.h>
#include <iterator>
#include <limits>
#include <memory>
#include <thread>

namespace xpurun::launcher {

using model::EvidenceStatus;
using model::GpuDevice;

namespace {

constexpr unsigned kMostProcesses = 1024;

class DeviceReader {
 public:
  DeviceReader(const Nvml& library, nvml::Device device) : nvml_(library, device) {}

  // Only the values that change fast.
  GpuDevice speed(int index, const std::string& uuid, bool processes) {
    GpuDevice d{.index = index};
    d.uuid = uuid;
    read_speed(d);
    if (processes) {
      read_processes(d);
    }
    return d;
  }
  std::string uuid() { return text("nvmlDeviceGetUUID"); }

  GpuDevice read(int index) {
    GpuDevice d{.index = index};
    d.name = text("nvmlDeviceGetName");
    d.uuid = text("nvmlDeviceGetUUID");
    if (nvml::Pci pci{}; call<nvml::PciInfo>("nvmlDeviceGetPciInfo_v3", &pci)) {
      pci.id[sizeof pci.id - 1] = 0;
      d.pci = base::sanitize(pci.id);
    }
    read_speed(d);
    read_memory(d);
    read_links(d);
    read_processes(d);
    d.problem = nvml_.problem();
    return d;
  }

 private:
  template <typename F, typename... Args>
  bool call(const char* name, Args... args) {
    return nvml_.call<F>(name, args...);
  }
  std::string text(const char* name) { return nvml_.text(name); }
  int number(const char* name) { return nvml_.number(name); }
  int number_of(const char* name, unsigned which) { return nvml_.number_of(name, which); }

  void read_speed(GpuDevice& d) {
    d.sm_clock_mhz = number_of("nvmlDeviceGetClockInfo", nvml::kClockSm);
    d.sm_clock_max_mhz = number_of("nvmlDeviceGetMaxClockInfo", nvml::kClockSm);
    d.memory_clock_mhz = number_of("nvmlDeviceGetClockInfo", nvml::kClockMemory);
    d.temperature_c = number_of("nvmlDeviceGetTemperature", nvml::kSensorGpu);
    const int milliwatts = number("nvmlDeviceGetPowerUsage");
    const int limit = number("nvmlDeviceGetEnforcedPowerLimit");
    d.power_w = milliwatts < 0 ? -1 : milliwatts / 1000.0;
    d.power_limit_w = limit < 0 ? -1 : limit / 1000.0;
    unsigned long long bits = 0;
    // Drivers before 535 have the older name.
    if (call<nvml::Bits>("nvmlDeviceGetCurrentClocksEventReasons", &bits) ||
        call<nvml::Bits>("nvmlDeviceGetCurrentClocksThrottleReasons", &bits)) {
      d.throttle_reasons = model::throttle_reasons_of(bits);
    }
    if (nvml::Utilization use{}; call<nvml::UtilizationRates>("nvmlDeviceGetUtilizationRates", &use)) {
      d.utilization_percent = static_cast<int>(use.gpu);
    }
  }

  int64_t ecc(unsigned kind) {
    unsigned long long count = 0;
    const bool good =
        call<nvml::EccErrors>("nvmlDeviceGetTotalEccErrors", kind, nvml::kCounterVolatile, &count);
    return good ? bounded(count) : -1;
  }

  void read_memory(GpuDevice& d) {
    if (nvml::Memory memory{}; call<nvml::MemoryInfo>("nvmlDeviceGetMemoryInfo", &memory)) {
      d.memory_used_bytes = bounded(memory.used);
      d.memory_total_bytes = bounded(memory.total);
    }
    d.ecc_corrected = ecc(nvml::kErrorCorrected);
    d.ecc_uncorrected = ecc(nvml::kErrorUncorrected);
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (call<nvml::RemappedRows>("nvmlDeviceGetRemappedRows", &corrected, &uncorrected, &pending, &failed)) {
      d.remapped_rows = uncorrected;
      d.remap_pending = pending != 0;
      d.remap_failed = failed != 0;
    }
  }

  int64_t link_errors(unsigned link, unsigned counter) {
    unsigned long long count = 0;
    const bool good = call<nvml::LinkErrors>("nvmlDeviceGetNvLinkErrorCounter", link, counter, &count);
    return good ? bounded(count) : -1;
  }

  void read_links(GpuDevice& d) {
    for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
      unsigned active = 0;
      if (!call<nvml::LinkState>("nvmlDeviceGetNvLinkState", link, &active)) {
        return;
      }
      const model::NvLinkErrors errors{.link = static_cast<int>(link),
                                       .replays = link_errors(link, nvml::kLinkReplay),
                                       .recoveries = link_errors(link, nvml::kLinkRecovery),
                                       .crc = link_errors(link, nvml::kLinkCrcFlit)};
      if (active != 0 && (errors.replays > 0 || errors.recoveries > 0 || errors.crc > 0)) {
        d.nvlink.push_back(errors);
      }
    }
  }

  void read_processes(GpuDevice& d) {
    std::vector<nvml::Process> processes(kMostProcesses);
    unsigned count = kMostProcesses;
    if (!call<nvml::Processes>("nvmlDeviceGetComputeRunningProcesses_v3", &count, processes.data())) {
      return;
    }
    for (unsigned i = 0; i < std::min(count, kMostProcesses); ++i) {
      const nvml::Process& p = processes[i];
      d.processes.push_back({.pid = static_cast<base::Pid>(p.pid),
                             .memory_bytes = p.memory == nvml::kUnknownMemory ? -1 : bounded(p.memory)});
    }
    read_loads(d);
  }

  // The newest sample of each process. A process without one does nothing.
  void read_loads(GpuDevice& d) {
    std::vector<nvml::ProcessLoad> loads(kMostProcesses);
    unsigned count = kMostProcesses;
    if (!call<nvml::ProcessLoads>("nvmlDeviceGetProcessUtilization", loads.data(), &count, 0ULL)) {
      return;
    }
    loads.resize(std::min(count, kMostProcesses));
    for (model::GpuProcess& p : d.processes) {
      p.sm_percent = 0;
      unsigned long long newest = 0;
      for (const nvml::ProcessLoad& load : loads) {
        if (static_cast<base::Pid>(load.pid) == p.pid && load.timestamp_us >= newest) {
          newest = load.timestamp_us;
          p.sm_percent = static_cast<int>(load.sm);
        }
      }
    }
  }

  NvmlDevice nvml_;
};

// How many multiprocessors of each GPU work, and with how many warps, between two looks.
class Multiprocessors {
 public:
  explicit Multiprocessors(const Nvml& library) : nvml_(library) {}
  Multiprocessors(const Multiprocessors&) = delete;
  Multiprocessors& operator=(const Multiprocessors&) = delete;
  ~Multiprocessors() {
    const auto release = nvml_.find<nvml::GpmFree>("nvmlGpmSampleFree");
    for (const Look& look : looks_) {
      for (const nvml::GpmSample sample : {look.first, look.second}) {
        if (sample != nullptr && release != nullptr) {
          release(sample);
        }
      }
    }
  }

  // The first look. GPUs that cannot count are left out.
  void begin(nvml::Device device, size_t index) {
    const auto query = nvml_.find<nvml::GpmQuerySupport>("nvmlGpmQueryDeviceSupport");
    const auto alloc = nvml_.find<nvml::GpmAlloc>("nvmlGpmSampleAlloc");
    nvml::GpmSupport support{.version = nvml::kGpmVersion, .supported = 0};
    if (query == nullptr || alloc == nullptr || query(device, &support) != nvml::kSuccess ||
        support.supported == 0) {
      return;
    }
    Look& look = looks_.emplace_back(Look{.device = device, .index = index});
    if (alloc(&look.first) != nvml::kSuccess || alloc(&look.second) != nvml::kSuccess ||
        !get(device, look.first)) {
      look.device = nullptr;
    }
    began_ = std::chrono::steady_clock::now();
  }

  // The second look, at least kApart after the first one.
  void end(std::vector<GpuDevice>& devices) {
    const auto compute = nvml_.find<nvml::GpmCompute>("nvmlGpmMetricsGet");
    if (looks_.empty() || compute == nullptr) {
      return;
    }
    std::this_thread::sleep_until(began_ + kApart);
    for (const Look& look : looks_) {
      nvml::GpmMetrics m{.version = nvml::kGpmVersion,
                         .count = 2,
                         .first = look.first,
                         .second = look.second,
                         .metrics = {{.id = nvml::kGpmSmUtil, .result = 0, .value = 0, .names = {}},
                                     {.id = nvml::kGpmSmOccupancy, .result = 0, .value = 0, .names = {}},
                                     {}}};
      if (look.device == nullptr || !get(look.device, look.second) || compute(&m) != nvml::kSuccess ||
          m.metrics[0].result != nvml::kSuccess || m.metrics[1].result != nvml::kSuccess ||
          !std::isfinite(m.metrics[0].value) || !std::isfinite(m.metrics[1].value)) {
        continue;
      }
      devices[look.index].sm_active_percent = m.metrics[0].value;
      devices[look.index].sm_occupancy_percent = m.metrics[1].value;
    }
  }

 private:
  // The counters advance every 100 ms; a shorter pause reads zeros.
  static constexpr std::chrono::milliseconds kApart{150};

  struct Look {
    nvml::Device device = nullptr;
    size_t index = 0;
    nvml::GpmSample first = nullptr;
    nvml::GpmSample second = nullptr;
  };

  bool get(nvml::Device device, nvml::GpmSample sample) const {
    const auto take = nvml_.find<nvml::GpmGet>("nvmlGpmSampleGet");
    return take != nullptr && take(device, sample) == nvml::kSuccess;
  }

  const Nvml& nvml_;
  std::vector<Look> looks_;
  std::chrono::steady_clock::time_point began_;
};

GpuReading problem(EvidenceStatus status, std::string reason) {
  return {.status = status, .reason = std::move(reason), .state = {}};
}

void read_devices(const Nvml& lib, nvml::HandleByIndex by_index, unsigned count, GpuReading& out) {
  Multiprocessors work(lib);
  for (unsigned i = 0; i < count; ++i) {
    nvml::Device device = nullptr;
    const nvml::Return code = by_index(i, &device);
    if (code == nvml::kSuccess) {
      work.begin(device, i);
      out.state.devices.push_back(DeviceReader(lib, device).read(static_cast<int>(i)));
    } else {
      out.state.devices.push_back({.index = static_cast<int>(i), .problem = lib.error(code)});
    }
    if (!out.state.devices.back().problem.empty()) {
      out.status = EvidenceStatus::partial;
      out.reason = fmt::format("GPU {}: {}", i, out.state.devices.back().problem);
    }
  }
  work.end(out.state.devices);
}

}  // namespace

GpuReading read_gpus(const std::string& library) {
  const NvmlLibrary handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) {
    return problem(EvidenceStatus::absent, fmt::format("{} is not installed", library));
  }
  const Nvml lib(handle.get());
  const auto init = lib.find<nvml::Init>("nvmlInit_v2");
  const auto shutdown = lib.find<nvml::Init>("nvmlShutdown");
  const auto count_devices = lib.find<nvml::Count>("nvmlDeviceGetCount_v2");
  const auto by_index = lib.find<nvml::HandleByIndex>("nvmlDeviceGetHandleByIndex_v2");
  if (init == nullptr || shutdown == nullptr || count_devices == nullptr || by_index == nullptr) {
    return problem(EvidenceStatus::failed, fmt::format("{} lacks the functions of NVML", library));
  }
  if (const nvml::Return code = init(); code != nvml::kSuccess) {
    const EvidenceStatus status = code == nvml::kDriverNotLoaded ? EvidenceStatus::absent
                                  : code == nvml::kNoPermission  ? EvidenceStatus::denied
                                                                 : EvidenceStatus::failed;
    return problem(status, fmt::format("NVML cannot be used: {}", lib.error(code)));
  }
  GpuReading out;
  char driver[96] = {};
  const auto version = lib.find<nvml::DriverVersion>("nvmlSystemGetDriverVersion");
  if (version != nullptr && version(driver, sizeof driver) == nvml::kSuccess) {
    driver[sizeof driver - 1] = 0;
    out.state.driver = base::sanitize(driver);
  }
  unsigned count = 0;
  const nvml::Return counted = count_devices(&count);
  if (counted != nvml::kSuccess) {
    out = problem(EvidenceStatus::failed, fmt::format("NVML cannot count the GPUs: {}", lib.error(counted)));
  } else if (count == 0) {
    out = problem(EvidenceStatus::absent, "this host has no GPU that NVML shows");
  }
  read_devices(lib, by_index, std::min(count, kMostDevices), out);
  shutdown();
  return out;
}

struct GpuSpeeds::State {
  std::unique_ptr<NvmlSession> session;
  std::vector<std::pair<nvml::Device, std::string>> devices;  // with UUIDs
};

GpuSpeeds::GpuSpeeds(std::unique_ptr<State> state) : state_(std::move(state)) {}
GpuSpeeds::GpuSpeeds(GpuSpeeds&&) noexcept = default;
GpuSpeeds& GpuSpeeds::operator=(GpuSpeeds&&) noexcept = default;
GpuSpeeds::~GpuSpeeds() = default;

base::Result<GpuSpeeds> GpuSpeeds::open(const std::string& library) {
  auto state = std::make_unique<State>();
  XPURUN_TRY_ASSIGN(state->session, NvmlSession::open(library));
  for (const nvml::Device device : state->session->devices()) {
    if (device != nullptr) {
      state->devices.emplace_back(device, DeviceReader(state->session->nvml(), device).uuid());
    }
  }
  return GpuSpeeds(std::move(state));
}

std::vector<GpuDevice> GpuSpeeds::read(bool processes) {
  std::vector<GpuDevice> out;
  for (const auto& [device, uuid] : state_->devices) {
    out.push_back(
        DeviceReader(state_->session->nvml(), device).speed(static_cast<int>(out.size()), uuid, processes));
  }
  return out;
}

}  // namespace xpurun::launcher
