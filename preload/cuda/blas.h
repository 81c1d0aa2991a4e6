// The cuBLAS functions that this library itself calls. Any thread.
#pragma once

namespace xpurun::preload {

// The stream of a cublasHandle_t; nullptr (the default stream) if cuBLAS does not report it.
void* blas_stream(void* handle);

}  // namespace xpurun::preload
