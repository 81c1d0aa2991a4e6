// Compares the preload's declarations with the real headers. Compiling is the test.
#include "common/wire/api.h"
#include "preload/core/vendor.h"
#include "preload/hooks/hook_list.h"

#include <cstddef>
#include <cstdio>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <type_traits>

using namespace xpurun::preload;

// Exported by the runtime from CUDA 13 on; the compiler's generated code calls it, no header declares it.
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                          size_t shared, cudaStream_t stream);

namespace {

template <size_t kSize>
struct Integer {};
template <size_t kSize>
struct Structure {};

// A type as the calling convention treats it: enumerations are integers, all pointers are alike, and a
// structure is its size.
template <typename T>
struct Seen {
  using type = Structure<sizeof(T)>;
};
template <typename T>
requires(std::is_enum_v<T> || std::is_integral_v<T>) struct Seen<T> {
  using type = Integer<sizeof(T)>;
};
template <typename T>
struct Seen<T*> {
  using type = void*;
};

template <typename F>
struct Convention;
template <typename R, typename... A>
struct Convention<R(A...)> {
  using type = void(typename Seen<R>::type, typename Seen<A>::type...);
};
template <typename R, typename... A>
struct Convention<R(A...) noexcept> : Convention<R(A...)> {};

template <typename Ours, typename Real>
constexpr bool kSame = std::is_same_v<typename Convention<Ours>::type, typename Convention<Real>::type>;

// If the headers have C++ overloads beside the exported function, its type is written out here. The compiler
// checks this type, because C functions cannot be overloaded.
// clang-format off
using Gemm19 = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                              cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, int,
                              cublasComputeType_t, cublasGemmAlgo_t);
using Gemm20 = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                              const void* const[], cudaDataType, int, const void* const[], cudaDataType, int, const void*,
                              void* const[], cudaDataType, int, int, cublasComputeType_t, cublasGemmAlgo_t);
using Gemm23 = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                              cudaDataType, int, long long, const void*, cudaDataType, int, long long, const void*, void*,
                              cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t);
// clang-format on
using Malloc = cudaError_t(void**, size_t);
using MallocFlags = cudaError_t(void**, size_t, unsigned);
using MallocAsync = cudaError_t(void**, size_t, cudaStream_t);
using MallocPool = cudaError_t(void**, size_t, cudaMemPool_t, cudaStream_t);
using Launch = cudaError_t(const void*, dim3, dim3, void**, size_t, cudaStream_t);

}  // namespace

extern "C" {
Gemm19 cublasGemmEx;
Gemm20 cublasGemmBatchedEx;
Gemm23 cublasGemmStridedBatchedEx;
Malloc cudaMalloc;
MallocFlags cudaMallocManaged;
MallocAsync cudaMallocAsync;
MallocPool cudaMallocFromPoolAsync;
Malloc cudaMallocHost;
MallocFlags cudaHostAlloc;
Launch cudaLaunchKernel;
}

namespace {

// The second argument: the type written out above, if any, else the header's type.
#define XPURUN_SECOND(first, second, ...) second
#define XPURUN_CHOOSE(...) XPURUN_SECOND(__VA_ARGS__)
#define XPURUN_WRITTEN_cublasGemmEx _, Gemm19
#define XPURUN_WRITTEN_cublasGemmBatchedEx _, Gemm20
#define XPURUN_WRITTEN_cublasGemmStridedBatchedEx _, Gemm23
#define XPURUN_WRITTEN_cudaMalloc _, Malloc
#define XPURUN_WRITTEN_cudaMallocManaged _, MallocFlags
#define XPURUN_WRITTEN_cudaMallocAsync _, MallocAsync
#define XPURUN_WRITTEN_cudaMallocFromPoolAsync _, MallocPool
#define XPURUN_WRITTEN_cudaMallocHost _, Malloc
#define XPURUN_WRITTEN_cudaHostAlloc _, MallocFlags
#define XPURUN_WRITTEN_cudaLaunchKernel _, Launch
#define XPURUN_SAME(name, type, policy) \
  static_assert(kSame<type, XPURUN_CHOOSE(XPURUN_WRITTEN_##name, decltype(::name), _)>, #name);
XPURUN_HOOKS(XPURUN_SAME)

static_assert(kSame<LtGetAttribute, decltype(cublasLtMatmulDescGetAttribute)>);
static_assert(kSame<LtGetAttribute, decltype(cublasLtMatrixLayoutGetAttribute)>);
static_assert(sizeof(cublasLtMatrixLayoutOpaque_t) == kLayoutWords * sizeof(uint64_t));
static_assert(kSame<CublasGetStream, decltype(cublasGetStream_v2)>);
static_assert(kSame<NcclQuery, decltype(ncclCommCount)> && kSame<NcclQuery, decltype(ncclCommUserRank)>);
static_assert(kSame<NcclQuery, decltype(ncclCommCuDevice)> && kSame<NcclVersion, decltype(ncclGetVersion)>);

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId) && sizeof(Dim3) == sizeof(dim3));
static_assert(offsetof(LaunchConfig, stream) == offsetof(cudaLaunchConfig_t, stream));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, grid) == offsetof(cudaLaunchConfig_t, gridDim) &&
              offsetof(LaunchConfig, grid) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(NcclConfig, comm_name) == offsetof(ncclConfig_t, commName));
static_assert(kNcclInProgress == ncclInProgress && kNcclSplitNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(kLayoutType == CUBLASLT_MATRIX_LAYOUT_TYPE && kLayoutOrder == CUBLASLT_MATRIX_LAYOUT_ORDER);
static_assert(kLayoutRows == CUBLASLT_MATRIX_LAYOUT_ROWS && kLayoutCols == CUBLASLT_MATRIX_LAYOUT_COLS);
static_assert(kLayoutBatch == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && kOrderRow == CUBLASLT_ORDER_ROW);
static_assert(kDescComputeType == CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
static_assert(kDescTransA == CUBLASLT_MATMUL_DESC_TRANSA && kDescTransB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(kDescScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(kDescScaleB == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
static_assert(kR32F == CUDA_R_32F && kR64F == CUDA_R_64F && kR16F == CUDA_R_16F);
static_assert(kC32F == CUDA_C_32F && kC64F == CUDA_C_64F && kR16BF == CUDA_R_16BF);
static_assert(kAttributeComputeMajor == cudaDevAttrComputeCapabilityMajor);
static_assert(kCompute16F == CUBLAS_COMPUTE_16F && kCompute32F == CUBLAS_COMPUTE_32F);
static_assert(kCompute64F == CUBLAS_COMPUTE_64F);
static_assert(kHostToDevice == cudaMemcpyHostToDevice && kDeviceToHost == cudaMemcpyDeviceToHost);
static_assert(kDeviceToDevice == cudaMemcpyDeviceToDevice && kCudaErrorNotReady == cudaErrorNotReady);
static_assert(kEventDisableTiming == cudaEventDisableTiming && kStreamNonBlocking == cudaStreamNonBlocking);
static_assert(kCaptureModeRelaxed == cudaStreamCaptureModeRelaxed);

}  // namespace

int main() {
  std::puts("the declarations are those of the headers");
}
