// The CUDA runtime functions that this library itself calls, looked up once in the runtime that the program
// uses. A failed call of this library never shows in the program's cudaGetLastError.
#pragma once

namespace xpurun::preload {

struct CudaApi {
  int (*get_device)(int*);
  int (*set_device)(int);
  int (*event_create)(void**, unsigned flags);
  int (*event_record)(void* event, void* stream);
  int (*event_query)(void* event);
  int (*event_elapsed)(float* ms, void* start, void* stop);
  int (*is_capturing)(void* stream, int* status);
  int (*exchange_capture_mode)(int* mode);
  int (*get_last_error)();
  int (*peek_last_error)();
  int (*runtime_version)(int*);
  int (*stream_create)(void** stream, unsigned flags);
  int (*pci_bus_id)(char* text, int length, int device);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*pointer_attributes)(void* attributes, const void* pointer);
};

// Looks up all functions once a runtime is loaded; false until then. Any thread.
bool load_cuda_api();

// Valid after load_cuda_api() has returned true.
const CudaApi& cuda_api();

// After a failed call of this library: removes the error from the runtime's per-thread state.
void forget_cuda_error();

// True if the program has an error that it has not read yet. The runtime keeps one error per thread, so a
// failed call of this library would replace it: this library then makes no call.
bool error_is_pending();

// True if a stream of the calling thread's device is being captured. An error counts as capturing.
bool is_capturing(void* stream);

}  // namespace xpurun::preload
