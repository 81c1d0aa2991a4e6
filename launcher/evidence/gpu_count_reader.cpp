#include "launcher/evidence/gpu_count_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::launcher {

namespace {

constexpr int kMostXids = 64;  // of one reading

int64_t ecc_errors(NvmlDevice& d, unsigned kind, unsigned since) {
  unsigned long long count = 0;
  return d.call<nvml::EccErrors>("nvmlDeviceGetTotalEccErrors", kind, since, &count) ? bounded(count) : -1;
}

int first_of_two(NvmlDevice& d, const char* name) {
  unsigned current = 0;
  unsigned pending = 0;
  return d.call<nvml::TwoNumbers>(name, &current, &pending) ? static_cast<int>(current) : -1;
}

double watts(NvmlDevice& d, const char* name) {
  const int milliwatts = d.number(name);
  return milliwatts < 0 ? -1 : milliwatts / 1000.0;
}

// By the function of older drivers, or else by the field of newer ones.
int64_t link_errors(NvmlDevice& d, unsigned link, unsigned counter, unsigned field) {
  unsigned long long count = 0;
  return d.call<nvml::LinkErrors>("nvmlDeviceGetNvLinkErrorCounter", link, counter, &count)
             ? bounded(count)
             : d.field(field, link);
}

void read_links(NvmlDevice& d, GpuCounts& to) {
  to.links.clear();
  to.unit.nvlinks = -1;
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    unsigned active = 0;
    if (!d.call<nvml::LinkState>("nvmlDeviceGetNvLinkState", link, &active)) {
      continue;
    }
    NvLinkCounts counts{.link = static_cast<int>(link), .is_up = active != 0};
    if (counts.is_up) {
      counts.replays = link_errors(d, link, nvml::kLinkReplay, nvml::kFieldLinkReplay);
      counts.recoveries = link_errors(d, link, nvml::kLinkRecovery, nvml::kFieldLinkRecovery);
      if (counts.recoveries < 0) {
        counts.recoveries = d.field(nvml::kFieldLinkRecoveryEvents, link);
      }
      counts.crc = link_errors(d, link, nvml::kLinkCrcFlit, nvml::kFieldLinkCrc);
    }
    to.unit.nvlinks = std::max(to.unit.nvlinks, 0) + (counts.is_up ? 1 : 0);
    to.links.push_back(counts);
  }
}

void read_memory_errors(NvmlDevice& d, GpuCounts& to) {
  to.ecc_corrected = ecc_errors(d, nvml::kErrorCorrected, nvml::kCounterVolatile);
  to.ecc_uncorrected = ecc_errors(d, nvml::kErrorUncorrected, nvml::kCounterVolatile);
  to.unit.ecc_corrected_ever = ecc_errors(d, nvml::kErrorCorrected, nvml::kCounterAggregate);
  to.unit.ecc_uncorrected_ever = ecc_errors(d, nvml::kErrorUncorrected, nvml::kCounterAggregate);
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (d.call<nvml::RemappedRows>("nvmlDeviceGetRemappedRows", &corrected, &uncorrected, &pending, &failed)) {
    to.unit.rows_corrected = corrected;
    to.unit.rows_uncorrected = uncorrected;
    to.remap_pending = pending != 0;
    to.remap_failed = failed != 0;
  }
  // GPUs before Ampere retire pages instead.
  const int64_t single = d.field(nvml::kFieldRetiredSingle);
  const int64_t twofold = d.field(nvml::kFieldRetiredDouble);
  to.pages_retired = single < 0 || twofold < 0 ? -1 : single + twofold;
  to.remap_pending = to.remap_pending || d.number("nvmlDeviceGetRetiredPagesPendingStatus") == 1;
}

void read_unit(NvmlDevice& d, model::GpuUnit& unit) {
  unit.uuid = d.text("nvmlDeviceGetUUID");
  unit.name = d.text("nvmlDeviceGetName");
  unit.serial = d.text("nvmlDeviceGetSerial");
  if (nvml::Pci pci{}; d.call<nvml::PciInfo>("nvmlDeviceGetPciInfo_v3", &pci)) {
    pci.id[sizeof pci.id - 1] = 0;
    unit.pci = model::kernel_pci(base::sanitize(pci.id));
  }
  unit.power_limit_w = watts(d, "nvmlDeviceGetEnforcedPowerLimit");
  unit.power_default_w = watts(d, "nvmlDeviceGetPowerManagementDefaultLimit");
  unit.sm_clock_max_mhz = d.number_of("nvmlDeviceGetMaxClockInfo", nvml::kClockSm);
  unit.pcie_width = d.number("nvmlDeviceGetCurrPcieLinkWidth");
  unit.pcie_width_max = d.number("nvmlDeviceGetMaxPcieLinkWidth");
  unit.pcie_generation_max = d.number("nvmlDeviceGetMaxPcieLinkGeneration");
  unit.persistence = d.number("nvmlDeviceGetPersistenceMode");
  unit.mig = first_of_two(d, "nvmlDeviceGetMigMode");
  unit.ecc = first_of_two(d, "nvmlDeviceGetEccMode");
}

void read_fast(NvmlDevice& d, GpuCounts& to) {
  unsigned long long bits = 0;
  to.reasons.clear();
  // Drivers before 535 have the older name.
  if (d.call<nvml::Bits>("nvmlDeviceGetCurrentClocksEventReasons", &bits) ||
      d.call<nvml::Bits>("nvmlDeviceGetCurrentClocksThrottleReasons", &bits)) {
    to.reasons = model::throttle_reasons_of(bits);
  }
  to.temperature_c = d.number_of("nvmlDeviceGetTemperature", nvml::kSensorGpu);
  to.unit.temperature_most_c = std::max(to.unit.temperature_most_c, to.temperature_c);
  to.pcie_generation = d.number("nvmlDeviceGetCurrPcieLinkGeneration");
  nvml::Utilization use{};
  to.utilization_percent =
      d.call<nvml::UtilizationRates>("nvmlDeviceGetUtilizationRates", &use) ? static_cast<int>(use.gpu) : -1;
}

std::string path_word(int level) {
  switch (level) {
    case nvml::kPathInternal:
      return "BOARD";
    case nvml::kPathSingle:
      return "PIX";
    case nvml::kPathMultiple:
      return "PXB";
    case nvml::kPathHostBridge:
      return "PHB";
    case nvml::kPathNode:
      return "NODE";
    case nvml::kPathSystem:
      return "SYS";
    default:
      return "";
  }
}

// NVLinks of a GPU: to switches, and to other GPUs by their PCI address.
struct LinkTargets {
  int to_switches = 0;
  std::map<std::string, int> to_gpus;
};

LinkTargets targets_of(NvmlDevice& d) {
  LinkTargets out;
  for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
    unsigned active = 0;
    unsigned kind = 0;
    if (!d.call<nvml::LinkState>("nvmlDeviceGetNvLinkState", link, &active) || active == 0) {
      continue;
    }
    if (d.call<nvml::LinkRemoteKind>("nvmlDeviceGetNvLinkRemoteDeviceType", link, &kind) &&
        kind == nvml::kLinkToSwitch) {
      ++out.to_switches;
    } else if (nvml::Pci pci{};
               d.call<nvml::LinkRemotePci>("nvmlDeviceGetNvLinkRemotePciInfo_v2", link, &pci)) {
      pci.id[sizeof pci.id - 1] = 0;
      ++out.to_gpus[model::kernel_pci(base::sanitize(pci.id))];
    }
  }
  return out;
}

}  // namespace

struct GpuCountReader::State {
  std::unique_ptr<NvmlSession> session;
  std::vector<GpuCounts> gpus;
  nvml::EventSet events = nullptr;

  ~State() {
    if (events != nullptr) {
      session->nvml().find<nvml::EventSetFree>("nvmlEventSetFree")(events);
    }
  }

  void listen() {
    const Nvml& lib = session->nvml();
    const auto create = lib.find<nvml::EventSetCreate>("nvmlEventSetCreate");
    const auto listen_to = lib.find<nvml::RegisterEvents>("nvmlDeviceRegisterEvents");
    if (create == nullptr || listen_to == nullptr ||
        lib.find<nvml::EventSetFree>("nvmlEventSetFree") == nullptr || create(&events) != nvml::kSuccess) {
      events = nullptr;
      return;
    }
    for (const nvml::Device device : session->devices()) {
      if (device != nullptr) {
        listen_to(device, nvml::kEventXid, events);  // virtual GPUs refuse
      }
    }
  }

  void take_events() {
    const auto wait = session->nvml().find<nvml::EventSetWait>("nvmlEventSetWait_v2");
    for (GpuCounts& gpu : gpus) {
      gpu.xids.clear();
    }
    nvml::Event event{};
    for (int i = 0; events != nullptr && wait != nullptr && i < kMostXids; ++i) {
      if (wait(events, &event, 0) != nvml::kSuccess) {
        return;
      }
      const auto& devices = session->devices();
      const auto at = std::find(devices.begin(), devices.end(), event.device);
      if (at != devices.end() && event.type == nvml::kEventXid && event.data < 10'000) {
        gpus[static_cast<size_t>(at - devices.begin())].xids.push_back(static_cast<int>(event.data));
      }
    }
  }
};

GpuCountReader::GpuCountReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
GpuCountReader::GpuCountReader(GpuCountReader&&) noexcept = default;
GpuCountReader& GpuCountReader::operator=(GpuCountReader&&) noexcept = default;
GpuCountReader::~GpuCountReader() = default;

base::Result<GpuCountReader> GpuCountReader::open(const std::string& library) {
  auto state = std::make_unique<State>();
  XPURUN_TRY_ASSIGN(state->session, NvmlSession::open(library));
  for (size_t i = 0; i < state->session->devices().size(); ++i) {
    state->gpus.emplace_back().unit.index = static_cast<int>(i);
  }
  state->listen();
  return GpuCountReader(std::move(state));
}

const std::vector<GpuCounts>& GpuCountReader::read(bool all) {
  for (size_t i = 0; i < state_->gpus.size(); ++i) {
    GpuCounts& gpu = state_->gpus[i];
    const nvml::Device device = state_->session->devices()[i];
    if (device == nullptr) {
      gpu.problem = "no answer";
      continue;
    }
    NvmlDevice d(state_->session->nvml(), device);
    GpuCounts next = gpu;
    read_fast(d, next);
    if (all) {
      read_unit(d, next.unit);
      next.pcie_replays = d.number("nvmlDeviceGetPcieReplayCounter");
      read_memory_errors(d, next);
      read_links(d, next);
    }
    // Of a GPU that was lost, what was known before.
    if (d.problem().empty()) {
      gpu = std::move(next);
    }
    gpu.problem = d.problem();
  }
  state_->take_events();
  return state_->gpus;
}

std::vector<model::GpuPath> GpuCountReader::paths() const {
  const NvmlSession& session = *state_->session;
  const auto ancestor = session.nvml().find<nvml::CommonAncestor>("nvmlDeviceGetTopologyCommonAncestor");
  std::vector<LinkTargets> targets;
  for (const nvml::Device device : session.devices()) {
    NvmlDevice d(session.nvml(), device);
    targets.push_back(device == nullptr ? LinkTargets() : targets_of(d));
  }
  std::vector<model::GpuPath> out;
  for (size_t a = 0; a < targets.size(); ++a) {
    for (size_t b = a + 1; b < targets.size(); ++b) {
      const auto direct = targets[a].to_gpus.find(state_->gpus[b].unit.pci);
      const int links = direct != targets[a].to_gpus.end()
                            ? direct->second
                            : std::min(targets[a].to_switches, targets[b].to_switches);
      int level = -1;
      std::string path = links > 0 ? fmt::format("NV{}", links) : std::string();
      if (path.empty() && ancestor != nullptr && session.devices()[a] != nullptr &&
          session.devices()[b] != nullptr &&
          ancestor(session.devices()[a], session.devices()[b], &level) == nvml::kSuccess) {
        path = path_word(level);
      }
      if (!path.empty()) {
        out.push_back({.from = static_cast<int>(a), .to = static_cast<int>(b), .path = path});
      }
    }
  }
  return out;
}

model::GpuInventory GpuCountReader::inventory(bool with_paths) const {
  model::GpuInventory out;
  for (const GpuCounts& gpu : state_->gpus) {
    out.units.push_back(gpu.unit);
  }
  if (with_paths) {
    out.paths = paths();
  }
  return out;
}

}  // namespace xpurun::launcher
