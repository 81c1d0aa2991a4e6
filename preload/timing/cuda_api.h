// The CUDA runtime as we call it ourselves: looked up once in the library that the program uses. A failed
// call of ours never shows in the program's cudaGetLastError.
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

// Looks everything up, from any thread, again and again until a runtime is loaded; false while something is
// missing.
bool load_cuda_api();

// Null members until load_cuda_api() was true.
const CudaApi& cuda_api();

// To be called after a call of ours failed.
void forget_cuda_error();

// The program has an error that it has not asked for yet: a failure of ours would take its place. Hands off.
bool error_is_pending();

// Of a stream of the calling thread's device. Errors count as capturing: hands off.
bool is_capturing(void* stream);

}  // namespace xpurun::preload
