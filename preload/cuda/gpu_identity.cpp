#include "preload/cuda/gpu_identity.h"

#include "preload/core/resolve.h"
#include "preload/cuda/cuda_api.h"

#include <string.h>

namespace xpurun::preload {

namespace {

void* driver(const char* name) {
  return find_in_library("libcuda.so", name);
}

}  // namespace

void describe_device(wire::SegmentHeader& header, int device) {
  int none = -1;
  if (!header.device.compare_exchange_strong(none, device)) {
    return;
  }
  char bus_id[sizeof(header.pci_bus_id)] = {};
  if (cuda_api().pci_bus_id(bus_id, sizeof(bus_id) - 1, device) == 0) {
    memcpy(header.pci_bus_id, bus_id, sizeof(bus_id));
  }
  const auto get = reinterpret_cast<int (*)(int*, int)>(driver("cuDeviceGet"));
  // _v2 (CUDA 11.4) returns the UUID of a MIG instance instead of the whole GPU's. Older drivers lack it.
  auto uuid = reinterpret_cast<int (*)(void*, int)>(driver("cuDeviceGetUuid_v2"));
  if (uuid == nullptr) {
    uuid = reinterpret_cast<int (*)(void*, int)>(driver("cuDeviceGetUuid"));
  }
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(driver("cuDeviceGetName"));
  int handle = 0;
  if (get == nullptr || uuid == nullptr || name == nullptr || get(&handle, device) != 0) {
    return;
  }
  char text[sizeof(header.device_name)] = {};
  if (name(text, sizeof(text) - 1, handle) == 0) {
    memcpy(header.device_name, text, sizeof(text));
  }
  char bytes[sizeof(header.device_uuid)] = {};
  if (uuid(bytes, handle) == 0) {
    memcpy(header.device_uuid, bytes, sizeof(bytes));
  }
}

}  // namespace xpurun::preload
