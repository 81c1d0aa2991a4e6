// A stand-in for libnvidia-ml.so.1 with two GPUs. FAKE_NVML says how it misbehaves: "hang" blocks in
// nvmlInit_v2, "lost" loses GPU 1, "denied", "no-driver" and "empty" fail as their names say.
#include "launcher/evidence/nvml_prototypes.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <unistd.h>

using namespace xpurun::launcher;

namespace {

constexpr nvml::Return kNotSupported = 3;
char devices[2];

std::string_view mode() {
  const char* value = std::getenv("FAKE_NVML");
  return value == nullptr ? "" : value;
}
size_t index_of(nvml::Device device) {
  return static_cast<size_t>(static_cast<char*>(device) - devices);
}
nvml::Return answer(nvml::Device device) {
  return index_of(device) == 1 && mode() == "lost" ? nvml::kGpuIsLost : nvml::kSuccess;
}

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
  *count = mode() == "empty" ? 0 : 2;
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  *device = devices + index;
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvml::Device* device) {
  *device = devices + (std::strstr(id, "0B:00") != nullptr ? 1 : 0);
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetName(nvml::Device device, char* text, unsigned size) {
  std::snprintf(text, size, "FAKE-%zu", index_of(device));
  return answer(device);
}
nvml::Return nvmlDeviceGetUUID(nvml::Device device, char* text, unsigned size) {
  std::snprintf(text, size, "GPU-%zu", index_of(device));
  return answer(device);
}
nvml::Return nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::Pci* pci) {
  std::snprintf(pci->id, sizeof pci->id, "00000000:%zuB:00.0", index_of(device) + 3);
  return answer(device);
}
nvml::Return nvmlDeviceGetClockInfo(nvml::Device device, unsigned kind, unsigned* mhz) {
  *mhz = kind == nvml::kClockSm ? 345 : 2619;
  return answer(device);
}
nvml::Return nvmlDeviceGetMaxClockInfo(nvml::Device device, unsigned, unsigned* mhz) {
  *mhz = 1980;
  return answer(device);
}
nvml::Return nvmlDeviceGetTemperature(nvml::Device device, unsigned, unsigned* celsius) {
  *celsius = 88;
  return answer(device);
}
nvml::Return nvmlDeviceGetPowerUsage(nvml::Device device, unsigned* milliwatts) {
  *milliwatts = 123500;
  return answer(device);
}
// nvmlDeviceGetEnforcedPowerLimit is missing, as in a driver that does not have it.
nvml::Return nvmlDeviceGetCurrentClocksThrottleReasons(nvml::Device device, unsigned long long* bits) {
  *bits = index_of(device) == 0 ? 0x68 : 0x1;
  return answer(device);
}
nvml::Return nvmlDeviceGetUtilizationRates(nvml::Device device, nvml::Utilization* use) {
  use->gpu = 100;
  use->memory = 3;
  return answer(device);
}
nvml::Return nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  memory->total = 80ULL << 30;
  memory->used = 79ULL << 30;
  return answer(device);
}
nvml::Return nvmlDeviceGetTotalEccErrors(nvml::Device device, unsigned kind, unsigned,
                                         unsigned long long* count) {
  *count = kind == nvml::kErrorUncorrected ? 2 : ~0ULL;
  return index_of(device) == 1 ? kNotSupported : nvml::kSuccess;
}
nvml::Return nvmlDeviceGetRemappedRows(nvml::Device device, unsigned* corrected, unsigned* uncorrected,
                                       unsigned* pending, unsigned* failed) {
  *corrected = 1;
  *uncorrected = 4;
  *pending = 1;
  *failed = 0;
  return answer(device);
}
nvml::Return nvmlDeviceGetNvLinkState(nvml::Device device, unsigned link, unsigned* active) {
  *active = 1;
  return link < 2 ? answer(device) : kNotSupported;
}
nvml::Return nvmlDeviceGetNvLinkErrorCounter(nvml::Device, unsigned link, unsigned counter,
                                             unsigned long long* count) {
  *count = link == 1 && counter == nvml::kLinkReplay ? 7 : 0;
  return nvml::kSuccess;
}
nvml::Return nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count,
                                                     nvml::Process* list) {
  list[0] = {.pid = 4711, .memory = 1ULL << 30, .gpu_instance = 0, .compute_instance = 0};
  list[1] = {.pid = 4712, .memory = nvml::kUnknownMemory, .gpu_instance = 0, .compute_instance = 0};
  *count = 2;
  return answer(device);
}
}
