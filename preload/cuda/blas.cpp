#include "preload/cuda/blas.h"

#include "preload/core/resolve.h"
#include "preload/core/state.h"
#include "preload/core/vendor.h"

namespace xpurun::preload {

void* blas_stream(void* handle) {
  static constinit std::atomic<CublasGetStream*> get{nullptr};
  const Inside inside;
  CublasGetStream* function = get.load(std::memory_order_acquire);
  // Two threads may look the function up at once. Both store the same address.
  if (function == nullptr) {
    function = reinterpret_cast<CublasGetStream*>(find_function("libcublas.so", "cublasGetStream_v2"));
    get.store(function, std::memory_order_release);
  }
  void* stream = nullptr;
  return function != nullptr && function(handle, &stream) == 0 ? stream : nullptr;
}

}  // namespace xpurun::preload
