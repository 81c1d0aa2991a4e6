// Compares the declarations of a replay with the real headers. Compiling is the test.
#include "commands/replay/vendor.h"

#include <cstddef>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <nccl.h>
#include <type_traits>

namespace ours = xpurun::launcher::vendor;

namespace {

template <size_t kSize>
struct Integer {};

// A type as the calling convention treats it: enumerations are integers, all pointers are alike.
template <typename T>
struct Seen {
  using type = T;
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

// The headers of cuBLAS have C++ overloads beside the exported functions; the exported one has this type.
// clang-format off
using Gemm = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                            cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, int,
                            cublasComputeType_t, cublasGemmAlgo_t);
using GemmStrided = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                                   const void*, cudaDataType, int, long long int, const void*, cudaDataType, int,
                                   long long int, const void*, void*, cudaDataType, int, long long int, int,
                                   cublasComputeType_t, cublasGemmAlgo_t);
using GemmBatched = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
                                   const void* const*, cudaDataType, int, const void* const*, cudaDataType, int,
                                   const void*, void* const*, cudaDataType, int, int, cublasComputeType_t,
                                   cublasGemmAlgo_t);
// clang-format on
template <typename Real>
constexpr Real* exported(Real* function) {
  return function;
}
static_assert(exported<Gemm>(cublasGemmEx) != nullptr);
static_assert(exported<GemmStrided>(cublasGemmStridedBatchedEx) != nullptr);
static_assert(exported<GemmBatched>(cublasGemmBatchedEx) != nullptr);

template <typename Ours, typename Real>
constexpr bool kSame = std::is_same_v<typename Convention<Ours>::type, typename Convention<Real>::type>;

#define XPURUN_SAME(member, name, type) \
  static_assert(kSame<std::remove_pointer_t<decltype(ours::XPURUN_STRUCT::member)>, decltype(name)>, #name);
#define XPURUN_STRUCT Driver
XPURUN_DRIVER_FUNCTIONS(XPURUN_SAME)
#undef XPURUN_STRUCT
#define XPURUN_STRUCT Lt
XPURUN_LT_FUNCTIONS(XPURUN_SAME)
#undef XPURUN_STRUCT
#define XPURUN_STRUCT Nccl
XPURUN_NCCL_FUNCTIONS(XPURUN_SAME)
#undef XPURUN_STRUCT

static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::gemm)>, Gemm>);
static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::gemm_strided)>, GemmStrided>);
static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::gemm_batched)>, GemmBatched>);
static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::create)>, decltype(cublasCreate_v2)>);
static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::destroy)>, decltype(cublasDestroy_v2)>);
static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::version)>, decltype(cublasGetVersion_v2)>);
static_assert(kSame<std::remove_pointer_t<decltype(ours::Blas::set_stream)>, decltype(cublasSetStream_v2)>);
static_assert(
    kSame<std::remove_pointer_t<decltype(ours::Blas::set_workspace)>, decltype(cublasSetWorkspace_v2)>);

static_assert(sizeof(ours::LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(ours::LtHeuristic, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(ours::LtHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(ours::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && ours::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(ours::kNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(ours::kL2Bytes == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(ours::kComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(ours::kAlgoDefault == CUBLAS_GEMM_DEFAULT &&
              ours::kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(ours::kPreferenceWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(ours::kLayoutBatch == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(ours::kLayoutStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(ours::kDescTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(ours::kDescTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(ours::kDescEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(ours::kDescBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(ours::kDescAuxiliary == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
static_assert(ours::kDescAuxiliaryLeading == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
static_assert(ours::kDescAuxiliaryStride == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
static_assert(ours::kDescScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(ours::kDescScaleB == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);

}  // namespace

int main() {
  return 0;
}
