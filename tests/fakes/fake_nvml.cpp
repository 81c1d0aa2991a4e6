// A stand-in for libnvidia-ml.so.1 with two GPUs. FAKE_NVML says how it misbehaves: "hang" blocks in
// nvmlInit_v2, "lost" loses GPU 1, "denied", "no-driver" and "empty" fail as their names say. With
// FAKE_NVML_STATE, the GPUs are healthy but for the lines "GPU NAME VALUE" of that file, which is read at
// each call: "1 link.4.recoveries 3"; "0 gpus 8" says how many there are.
#include "launcher/evidence/nvml_prototypes.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

using namespace xpurun::launcher;

namespace {

constexpr nvml::Return kNotSupported = 3;
char devices[16];

std::string_view mode() {
  const char* value = std::getenv("FAKE_NVML");
  return value == nullptr ? "" : value;
}
size_t index_of(nvml::Device device) {
  return static_cast<size_t>(static_cast<char*>(device) - devices);
}
bool has_state() {
  return std::getenv("FAKE_NVML_STATE") != nullptr;
}
// Of the file, else `healthy`; without a file `other`.
long long state(size_t gpu, const std::string& wanted, long long healthy, long long other = -1) {
  if (!has_state()) {
    return other;
  }
  std::ifstream file(std::getenv("FAKE_NVML_STATE"));
  size_t index = 0;
  std::string name;
  long long value = 0;
  long long out = healthy;
  while (file >> index >> name >> value) {
    out = index == gpu && name == wanted ? value : out;
  }
  return out;
}
nvml::Return answer(nvml::Device device) {
  if (state(index_of(device), "lost", 0, 0) != 0) {
    return nvml::kGpuIsLost;
  }
  return index_of(device) == 1 && mode() == "lost" ? nvml::kGpuIsLost : nvml::kSuccess;
}

// Negative: the GPU does not have the value.
nvml::Return number(nvml::Device device, const std::string& name, long long healthy, unsigned* out,
                    long long other = -1) {
  const long long value = state(index_of(device), name, healthy, other);
  *out = static_cast<unsigned>(value);
  return value < 0 ? kNotSupported : answer(device);
}
std::string of_link(unsigned link, const char* what) {
  return "link." + std::to_string(link) + "." + what;
}

long long told_xids[16];

}  // namespace

extern "C" {

nvml::Return nvmlInit_v2() {
  while (mode() == "hang") {
    ::pause();
  }
  return mode() == "denied"      ? nvml::kNoPermission
         : mode() == "no-driver" ? nvml::kDriverNotLoaded
                                 : nvml::kSuccess;
}
nvml::Return nvmlShutdown() {
  return nvml::kSuccess;
}
const char* nvmlErrorString(nvml::Return code) {
  return code == nvml::kGpuIsLost         ? "GPU is lost"
         : code == nvml::kNoPermission    ? "Insufficient Permissions"
         : code == nvml::kDriverNotLoaded ? "Driver Not Loaded"
                                          : "Unknown Error";
}
nvml::Return nvmlSystemGetDriverVersion(char* text, unsigned size) {
  std::snprintf(text, size, "580.1");
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = mode() == "empty" ? 0 : static_cast<unsigned>(state(0, "gpus", 2, 2));
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  *device = devices + index;
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvml::Device* device) {
  // "0000:3B:00.0" is GPU 0 and "0000:0B:00.0" GPU 1 of a replay.
  *device = devices + (std::strstr(id, "0B:00") != nullptr ? 1 : 0);
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetName(nvml::Device device, char* text, unsigned size) {
  if (has_state()) {
    std::snprintf(text, size, "NVIDIA H200");
  } else {
    std::snprintf(text, size, "FAKE-%zu", index_of(device));
  }
  return answer(device);
}
nvml::Return nvmlDeviceGetUUID(nvml::Device device, char* text, unsigned size) {
  const size_t index = index_of(device);
  if (has_state()) {
    // As the GPUs of the simulated machine of a replay.
    const auto b = static_cast<unsigned>(0x10 + index);
    std::snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b,
                  b, b, b, b, b, b, b, b, b, b, b, b, b, b, b);
  } else {
    std::snprintf(text, size, "GPU-%zu", index);
  }
  return answer(device);
}
nvml::Return nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::Pci* pci) {
  std::snprintf(pci->id, sizeof pci->id, "00000000:%zXB:00.0", index_of(device) + 3);
  return answer(device);
}
nvml::Return nvmlDeviceGetClockInfo(nvml::Device device, unsigned kind, unsigned* mhz) {
  return kind == nvml::kClockSm ? number(device, "sm_clock", 1980, mhz, 345)
                                : number(device, "memory_clock", 2619, mhz, 2619);
}
nvml::Return nvmlDeviceGetMaxClockInfo(nvml::Device device, unsigned, unsigned* mhz) {
  return number(device, "sm_clock_max", 1980, mhz, 1980);
}
nvml::Return nvmlDeviceGetTemperature(nvml::Device device, unsigned, unsigned* celsius) {
  return number(device, "temperature", 55, celsius, 88);
}
nvml::Return nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* milliwatts) {
  *milliwatts = 123500;
  return answer(device);
}
// Without a state not supported, as by some GPUs.
nvml::Return nvmlDeviceGetEnforcedPowerLimit(nvml::Device device, unsigned* milliwatts) {
  return number(device, "power_limit", 700'000, milliwatts);
}
nvml::Return nvmlDeviceGetPowerManagementDefaultLimit(nvml::Device device, unsigned* milliwatts) {
  return number(device, "power_default", 700'000, milliwatts);
}
nvml::Return nvmlDeviceGetSerial(nvml::Device device, char* text, unsigned size) {
  std::snprintf(text, size, "16530000%zu", index_of(device));
  return has_state() ? answer(device) : kNotSupported;
}
nvml::Return nvmlDeviceGetCurrPcieLinkWidth(nvml::Device device, unsigned* lanes) {
  return number(device, "pcie_width", 16, lanes);
}
nvml::Return nvmlDeviceGetMaxPcieLinkWidth(nvml::Device device, unsigned* lanes) {
  return number(device, "pcie_width_max", 16, lanes);
}
nvml::Return nvmlDeviceGetCurrPcieLinkGeneration(nvml::Device device, unsigned* generation) {
  return number(device, "pcie_generation", 5, generation);
}
nvml::Return nvmlDeviceGetMaxPcieLinkGeneration(nvml::Device device, unsigned* generation) {
  return number(device, "pcie_generation_max", 5, generation);
}
nvml::Return nvmlDeviceGetPcieReplayCounter(nvml::Device device, unsigned* count) {
  return number(device, "pcie_replays", 3, count);
}
nvml::Return nvmlDeviceGetPersistenceMode(nvml::Device device, unsigned* mode) {
  return number(device, "persistence", 1, mode);
}
nvml::Return nvmlDeviceGetMigMode(nvml::Device device, unsigned* current, unsigned* pending) {
  *pending = 0;
  return number(device, "mig", 0, current);
}
nvml::Return nvmlDeviceGetEccMode(nvml::Device device, unsigned* current, unsigned* pending) {
  *pending = 1;
  return number(device, "ecc", 1, current);
}
nvml::Return nvmlDeviceGetRetiredPagesPendingStatus(nvml::Device device, unsigned* pending) {
  return number(device, "pages_pending", -1, pending);
}
// Each value of "xid" is one event.
nvml::Return nvmlEventSetCreate(nvml::EventSet* events) {
  *events = told_xids;
  return nvml::kSuccess;
}
nvml::Return nvmlEventSetFree(nvml::EventSet) {
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceRegisterEvents(nvml::Device, unsigned long long kinds, nvml::EventSet) {
  return kinds == nvml::kEventXid ? nvml::kSuccess : kNotSupported;
}
nvml::Return nvmlEventSetWait_v2(nvml::EventSet, nvml::Event* event, unsigned) {
  constexpr nvml::Return kTimeout = 10;
  for (size_t i = 0; i < sizeof devices; ++i) {
    const long long xid = state(i, "xid", 0, 0);
    if (xid != told_xids[i]) {
      told_xids[i] = xid;
      *event = {.device = devices + i,
                .type = nvml::kEventXid,
                .data = static_cast<unsigned long long>(xid),
                .gpu_instance = 0,
                .compute_instance = 0};
      return xid == 0 ? kTimeout : nvml::kSuccess;
    }
  }
  return kTimeout;
}
nvml::Return nvmlDeviceGetTopologyCommonAncestor(nvml::Device a, nvml::Device b, int* level) {
  *level = static_cast<int>(state(index_of(a), "path." + std::to_string(index_of(b)), nvml::kPathNode, 50));
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetNvLinkRemoteDeviceType(nvml::Device device, unsigned, unsigned* kind) {
  return number(device, "link_target", nvml::kLinkToSwitch, kind);
}
nvml::Return nvmlDeviceGetFieldValues(nvml::Device device, int count, nvml::FieldValue* values) {
  for (int i = 0; i < count; ++i) {
    const long long value =
        values[i].id == nvml::kFieldRetiredSingle || values[i].id == nvml::kFieldRetiredDouble
            ? state(index_of(device), "pages_retired", -1)
            : -1;
    values[i].result = value < 0 ? kNotSupported : nvml::kSuccess;
    values[i].type = nvml::kFieldUnsignedLongLong;
    values[i].value.long_number = static_cast<unsigned long long>(value);
  }
  return answer(device);
}
nvml::Return nvmlDeviceGetCurrentClocksThrottleReasons(nvml::Device device, unsigned long long* bits) {
  *bits = static_cast<unsigned long long>(
      state(index_of(device), "reasons", 0x4, index_of(device) == 0 ? 0x68 : 0x1));
  return answer(device);
}
nvml::Return nvmlDeviceGetUtilizationRates(nvml::Device device, nvml::Utilization* use) {
  use->gpu = static_cast<unsigned>(state(index_of(device), "utilization", 100, 100));
  use->memory = 3;
  return answer(device);
}
// Only with a state of the GPU: "0 sm_active 182" and "0 sm_occupancy 48", in tenths of a percent.
nvml::Return nvmlGpmQueryDeviceSupport(nvml::Device device, nvml::GpmSupport* support) {
  support->supported = state(index_of(device), "sm_active", -1, -1) >= 0 ? 1 : 0;
  return answer(device);
}
nvml::Return nvmlGpmSampleAlloc(nvml::GpmSample* sample) {
  *sample = new nvml::Device(nullptr);
  return nvml::kSuccess;
}
nvml::Return nvmlGpmSampleFree(nvml::GpmSample sample) {
  delete static_cast<nvml::Device*>(sample);
  return nvml::kSuccess;
}
nvml::Return nvmlGpmSampleGet(nvml::Device device, nvml::GpmSample sample) {
  *static_cast<nvml::Device*>(sample) = device;
  return answer(device);
}
nvml::Return nvmlGpmMetricsGet(nvml::GpmMetrics* m) {
  const size_t gpu = index_of(*static_cast<nvml::Device*>(m->second));
  for (unsigned i = 0; i < m->count; ++i) {
    const char* name = m->metrics[i].id == nvml::kGpmSmUtil ? "sm_active" : "sm_occupancy";
    m->metrics[i].value = static_cast<double>(state(gpu, name, 0)) / 10;
    m->metrics[i].result = nvml::kSuccess;
  }
  return *static_cast<nvml::Device*>(m->first) == devices + gpu ? nvml::kSuccess : kNotSupported;
}
nvml::Return nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  memory->total = 80ULL << 30;
  memory->used = 79ULL << 30;
  return answer(device);
}
nvml::Return nvmlDeviceGetTotalEccErrors(nvml::Device device, unsigned kind, unsigned since,
                                         unsigned long long* count) {
  if (has_state()) {
    const std::string name = kind == nvml::kErrorUncorrected ? "ecc_uncorrected" : "ecc_corrected";
    *count = static_cast<unsigned long long>(
        state(index_of(device), since == nvml::kCounterAggregate ? name + "_ever" : name, 0));
    return answer(device);
  }
  *count = kind == nvml::kErrorUncorrected ? 2 : ~0ULL;
  return index_of(device) == 1 ? kNotSupported : nvml::kSuccess;
}
nvml::Return nvmlDeviceGetRemappedRows(nvml::Device device, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failed) {
  const size_t gpu = index_of(device);
  *corrected = static_cast<unsigned>(state(gpu, "rows_corrected", 1, 1));
  *uncorrected = static_cast<unsigned>(state(gpu, "rows_uncorrected", 0, 4));
  *pending = static_cast<unsigned>(state(gpu, "remap_pending", 0, 1));
  *failed = static_cast<unsigned>(state(gpu, "remap_failed", 0, 0));
  return answer(device);
}
nvml::Return nvmlDeviceGetNvLinkState(nvml::Device device, unsigned link, unsigned* active) {
  *active = static_cast<unsigned>(state(index_of(device), of_link(link, "up"), 1, 1));
  return link < (has_state() ? nvml::kMostLinks : 2) ? answer(device) : kNotSupported;
}
nvml::Return nvmlDeviceGetNvLinkErrorCounter(nvml::Device device, unsigned link, unsigned counter,
                                             unsigned long long* count) {
  const char* name = counter == nvml::kLinkReplay     ? "replays"
                     : counter == nvml::kLinkRecovery ? "recoveries"
                                                      : "crc";
  *count = static_cast<unsigned long long>(
      state(index_of(device), of_link(link, name), 0, link == 1 && counter == nvml::kLinkReplay ? 7 : 0));
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count,
                                                     nvml::Process* list) {
  list[0] = {.pid = 4711, .memory = 1ULL << 30, .gpu_instance = 0, .compute_instance = 0};
  list[1] = {.pid = 4712, .memory = nvml::kUnknownMemory, .gpu_instance = 0, .compute_instance = 0};
  *count = static_cast<unsigned>(state(index_of(device), "processes", 0, 2));
  return answer(device);
}
}
