// cuBLAS as we call it ourselves. Any thread.
#pragma once

namespace xpurun::preload {

// The stream that a cublasHandle_t works on; nullptr (the default stream) if cuBLAS does not say.
void* blas_stream(void* handle);

}  // namespace xpurun::preload
