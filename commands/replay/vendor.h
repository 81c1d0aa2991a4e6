// Prototypes of the functions of CUDA's driver, cuBLAS, cuBLASLt and NCCL that a replay calls, so that
// building needs no NVIDIA headers. Handles are void*, enumerations int; device addresses are uint64_t. Where
// the real headers are installed, tests/unit/commands/replay/vendor_check.cpp compares every declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace xpurun::launcher::vendor {

using Address = unsigned long long;  // CUdeviceptr

// clang-format off
struct Uuid {
  char bytes[16];
};

// X(name in Driver, exported name, prototype)
#define XPURUN_DRIVER_FUNCTIONS(X)                                                                    \
  X(init, cuInit, int(unsigned flags))                                                                \
  X(driver_version, cuDriverGetVersion, int(int* version))                                            \
  X(device_count, cuDeviceGetCount, int(int* count))                                                  \
  X(device_get, cuDeviceGet, int(int* device, int index))                                             \
  X(device_name, cuDeviceGetName, int(char* text, int size, int device))                              \
  X(device_uuid, cuDeviceGetUuid_v2, int(Uuid* uuid, int device))                                     \
  X(device_bus_id, cuDeviceGetPCIBusId, int(char* text, int size, int device))                        \
  X(device_memory, cuDeviceTotalMem_v2, int(size_t* bytes, int device))                               \
  X(device_attribute, cuDeviceGetAttribute, int(int* value, int attribute, int device))               \
  X(context_retain, cuDevicePrimaryCtxRetain, int(void** context, int device))                        \
  X(context_release, cuDevicePrimaryCtxRelease_v2, int(int device))                                   \
  X(context_set, cuCtxSetCurrent, int(void* context))                                                 \
  X(memory_info, cuMemGetInfo_v2, int(size_t* free, size_t* total))                                   \
  X(allocate, cuMemAlloc_v2, int(Address* address, size_t bytes))                                     \
  X(release, cuMemFree_v2, int(Address address))                                                      \
  X(copy_in, cuMemcpyHtoD_v2, int(Address to, const void* from, size_t bytes))                        \
  X(copy, cuMemcpyDtoD_v2, int(Address to, Address from, size_t bytes))                               \
  X(copy_async, cuMemcpyDtoDAsync_v2, int(Address to, Address from, size_t bytes, void* stream))      \
  X(copy_in_async, cuMemcpyHtoDAsync_v2, int(Address to, const void* from, size_t bytes, void* stream)) \
  X(copy_out_async, cuMemcpyDtoHAsync_v2, int(void* to, Address from, size_t bytes, void* stream))    \
  X(copy_peer, cuMemcpyPeerAsync,                                                                     \
    int(Address to, void* to_context, Address from, void* from_context, size_t bytes, void* stream))  \
  X(peer_enable, cuCtxEnablePeerAccess, int(void* context, unsigned flags))                           \
  X(host_allocate, cuMemAllocHost_v2, int(void** address, size_t bytes))                              \
  X(host_release, cuMemFreeHost, int(void* address))                                                  \
  X(fill, cuMemsetD32Async, int(Address to, unsigned value, size_t words, void* stream))              \
  X(stream_create, cuStreamCreate, int(void** stream, unsigned flags))                                \
  X(stream_destroy, cuStreamDestroy_v2, int(void* stream))                                            \
  X(stream_wait, cuStreamSynchronize, int(void* stream))                                              \
  X(event_create, cuEventCreate, int(void** event, unsigned flags))                                   \
  X(event_destroy, cuEventDestroy_v2, int(void* event))                                               \
  X(event_record, cuEventRecord, int(void* event, void* stream))                                      \
  X(event_elapsed, cuEventElapsedTime, int(float* ms, void* begin, void* end))                        \
  X(error_text, cuGetErrorString, int(int error, const char** text))

#define XPURUN_BLAS_FUNCTIONS(X)                                                                      \
  X(create, cublasCreate_v2, int(void** handle))                                                      \
  X(destroy, cublasDestroy_v2, int(void* handle))                                                     \
  X(version, cublasGetVersion_v2, int(void* handle, int* version))                                    \
  X(set_stream, cublasSetStream_v2, int(void* handle, void* stream))                                  \
  X(set_workspace, cublasSetWorkspace_v2, int(void* handle, void* workspace, size_t bytes))           \
  X(gemm, cublasGemmEx,                                                                               \
    int(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda,  \
        const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc, int compute, int algo)) \
  X(gemm_strided, cublasGemmStridedBatchedEx,                                                         \
    int(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int a_type, int lda,  \
        long long stride_a, const void* b, int b_type, int ldb, long long stride_b, const void* beta, void* c,     \
        int c_type, int ldc, long long stride_c, int batch, int compute, int algo))                   \
  X(gemm_batched, cublasGemmBatchedEx,                                                                \
    int(void* handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* const* a, int a_type,    \
        int lda, const void* const* b, int b_type, int ldb, const void* beta, void* const* c, int c_type,          \
        int ldc, int batch, int compute, int algo))

#define XPURUN_LT_FUNCTIONS(X)                                                                        \
  X(create, cublasLtCreate, int(void** handle))                                                       \
  X(destroy, cublasLtDestroy, int(void* handle))                                                      \
  X(desc_create, cublasLtMatmulDescCreate, int(void** desc, int compute, int scale_type))             \
  X(desc_destroy, cublasLtMatmulDescDestroy, int(void* desc))                                         \
  X(desc_set, cublasLtMatmulDescSetAttribute, int(void* desc, int attribute, const void* value, size_t bytes))     \
  X(layout_create, cublasLtMatrixLayoutCreate,                                                        \
    int(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading))                   \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, int(void* layout))                                   \
  X(layout_set, cublasLtMatrixLayoutSetAttribute, int(void* layout, int attribute, const void* value, size_t bytes)) \
  X(preference_create, cublasLtMatmulPreferenceCreate, int(void** preference))                        \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, int(void* preference))                       \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                             \
    int(void* preference, int attribute, const void* value, size_t bytes))                            \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                        \
    int(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted,   \
        LtHeuristic* results, int* found))                                                            \
  X(matmul, cublasLtMatmul,                                                                           \
    int(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,    \
        void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const LtAlgo* algo, \
        void* workspace, size_t bytes, void* stream))

#define XPURUN_NCCL_FUNCTIONS(X)                                                                      \
  X(version, ncclGetVersion, int(int* version))                                                       \
  X(init_all, ncclCommInitAll, int(void** comms, int count, const int* devices))                      \
  X(destroy, ncclCommDestroy, int(void* comm))                                                        \
  X(group_start, ncclGroupStart, int())                                                               \
  X(group_end, ncclGroupEnd, int())                                                                   \
  X(all_reduce, ncclAllReduce,                                                                        \
    int(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream))   \
  X(reduce_scatter, ncclReduceScatter,                                                                \
    int(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream))   \
  X(all_gather, ncclAllGather,                                                                        \
    int(const void* send, void* receive, size_t count, int type, void* comm, void* stream))           \
  X(reduce, ncclReduce,                                                                               \
    int(const void* send, void* receive, size_t count, int type, int op, int root, void* comm, void* stream))      \
  X(broadcast, ncclBroadcast,                                                                         \
    int(const void* send, void* receive, size_t count, int type, int root, void* comm, void* stream))
// clang-format on

struct LtAlgo {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(LtHeuristic) == 96);

#define XPURUN_MEMBER(member, name, type) std::type_identity_t<type>* member = nullptr;
struct Driver {
  XPURUN_DRIVER_FUNCTIONS(XPURUN_MEMBER)
};
struct Blas {
  XPURUN_BLAS_FUNCTIONS(XPURUN_MEMBER)
};
struct Lt {
  XPURUN_LT_FUNCTIONS(XPURUN_MEMBER)
};
struct Nccl {
  XPURUN_NCCL_FUNCTIONS(XPURUN_MEMBER)
};
#undef XPURUN_MEMBER

inline constexpr int kOutOfMemory = 2;          // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr int kNoDevice = 100;           // CUDA_ERROR_NO_DEVICE
inline constexpr unsigned kNonBlocking = 1;     // CU_STREAM_NON_BLOCKING
inline constexpr int kL2Bytes = 38;             // CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
inline constexpr int kComputeMajor = 75;        // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kAlgoDefault = -1;         // CUBLAS_GEMM_DEFAULT
inline constexpr int kNotSupported = 15;        // CUBLAS_STATUS_NOT_SUPPORTED
inline constexpr int kPreferenceWorkspace = 1;  // cublasLtMatmulPreferenceAttributes_t
// cublasLtMatrixLayoutAttribute_t
inline constexpr int kLayoutBatch = 5;
inline constexpr int kLayoutStride = 6;
// cublasLtMatmulDescAttributes_t
inline constexpr int kDescTransposeA = 3;
inline constexpr int kDescTransposeB = 4;
inline constexpr int kDescEpilogue = 7;
inline constexpr int kDescBias = 8;
inline constexpr int kDescAuxiliary = 11;
inline constexpr int kDescAuxiliaryLeading = 12;
inline constexpr int kDescAuxiliaryStride = 13;
inline constexpr int kDescScaleA = 17;
inline constexpr int kDescScaleB = 18;

}  // namespace xpurun::launcher::vendor
