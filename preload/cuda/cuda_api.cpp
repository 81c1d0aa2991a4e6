#include "preload/cuda/cuda_api.h"

#include "preload/core/resolve.h"
#include "preload/core/state.h"

#include <atomic>

namespace xpurun::preload {

namespace {

CudaApi g_api;
constinit std::atomic<uint32_t> g_loaded{0};  // 0 no, 1 being written, 2 yes

template <typename Function>
bool set(Function*& member, const char* name) {
  member = reinterpret_cast<Function*>(find_function("libcudart.so", name));
  return member != nullptr;
}

// All functions or none: a runtime without one of them is too old for timing.
bool fill(CudaApi& api) {
  return set(api.get_device, "cudaGetDevice") && set(api.set_device, "cudaSetDevice") &&
         set(api.event_create, "cudaEventCreateWithFlags") && set(api.event_record, "cudaEventRecord") &&
         set(api.event_query, "cudaEventQuery") && set(api.event_elapsed, "cudaEventElapsedTime") &&
         set(api.is_capturing, "cudaStreamIsCapturing") &&
         set(api.exchange_capture_mode, "cudaThreadExchangeStreamCaptureMode") &&
         set(api.get_last_error, "cudaGetLastError") && set(api.peek_last_error, "cudaPeekAtLastError") &&
         set(api.runtime_version, "cudaRuntimeGetVersion") &&
         set(api.stream_create, "cudaStreamCreateWithFlags") &&
         set(api.pci_bus_id, "cudaDeviceGetPCIBusId") &&
         set(api.device_attribute, "cudaDeviceGetAttribute") &&
         set(api.pointer_attributes, "cudaPointerGetAttributes");
}

}  // namespace

bool load_cuda_api() {
  if (g_loaded.load(std::memory_order_acquire) == 2) {
    return true;
  }
  CudaApi api{};
  if (!fill(api)) {
    return false;
  }
  // The first thread writes the table. A thread that comes meanwhile gets false, and its call passes untimed
  // instead of waiting.
  uint32_t expected = 0;
  if (g_loaded.compare_exchange_strong(expected, 1)) {
    g_api = api;
    g_loaded.store(2, std::memory_order_release);
  }
  return g_loaded.load(std::memory_order_acquire) == 2;
}

const CudaApi& cuda_api() {
  return g_api;
}

void forget_cuda_error() {
  // cudaGetLastError() clears the error: the program must not see an error of this library's call.
  g_api.get_last_error();
  if (wire::Segment* shared = segment()) {
    add(shared->header.health.cuda_errors, 1);
  }
}

bool error_is_pending() {
  // Unlike cudaGetLastError(), this call leaves the error for the program.
  return g_api.peek_last_error() != 0;
}

bool is_capturing(void* stream) {
  int status = 0;
  if (g_api.is_capturing(stream, &status) != 0) {
    g_api.get_last_error();  // an error is expected from the legacy stream while another stream captures
    return true;
  }
  return status != 0;
}

}  // namespace xpurun::preload
