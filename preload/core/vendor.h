// Declarations of the CUDA runtime, driver, cuBLAS and NCCL functions that this library hooks or calls, so
// that building needs no NVIDIA headers. Handles are void*, enumerations int. Where the real headers are
// installed, tests/preload/vendor_check.cpp compares every declaration.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload {

// clang-format off
template <typename I>
using Gemm = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* a, I lda,
                 const void* b, I ldb, const void* beta, void* c, I ldc);
template <typename I>
using GemmBatched = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* const* a, I lda,
                        const void* const* b, I ldb, const void* beta, void* const* c, I ldc, I batch);
template <typename I>
using GemmStrided = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* a, I lda,
                        long long stride_a, const void* b, I ldb, long long stride_b, const void* beta, void* c, I ldc,
                        long long stride_c, I batch);
template <typename I>
using TypedGemm = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* a, int a_type, I lda,
                      const void* b, int b_type, I ldb, const void* beta, void* c, int c_type, I ldc);
template <typename I>
using GemmEx = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* a, int a_type, I lda,
                   const void* b, int b_type, I ldb, const void* beta, void* c, int c_type, I ldc, int compute,
                   int algo);
template <typename I>
using GemmBatchedEx = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* const* a,
                          int a_type, I lda, const void* const* b, int b_type, I ldb, const void* beta,
                          void* const* c, int c_type, I ldc, I batch, int compute, int algo);
template <typename I>
using GemmStridedEx = int(void* handle, int ta, int tb, I m, I n, I k, const void* alpha, const void* a, int a_type,
                          I lda, long long stride_a, const void* b, int b_type, I ldb, long long stride_b,
                          const void* beta, void* c, int c_type, I ldc, long long stride_c, I batch, int compute,
                          int algo);
template <typename I>
using GemmGrouped = int(void* handle, const int* ta, const int* tb, const I* m, const I* n, const I* k,
                        const void* alpha, const void* const* a, const I* lda, const void* const* b, const I* ldb,
                        const void* beta, void* const* c, const I* ldc, I groups, const I* sizes);
template <typename I>
using GemmGroupedEx = int(void* handle, const int* ta, const int* tb, const I* m, const I* n, const I* k,
                          const void* alpha, const void* const* a, int a_type, const I* lda, const void* const* b,
                          int b_type, const I* ldb, const void* beta, void* const* c, int c_type, const I* ldc,
                          I groups, const I* sizes, int compute);
using LtMatmul = int(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                     void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                     const void* algo, void* workspace, size_t workspace_bytes, void* stream);
// clang-format on

using LtGetAttribute = int(void* object, int attribute, void* buffer, size_t size, size_t* written);
using CublasGetStream = int(void* handle, void** stream);

// cublasLtMatrixLayoutAttribute_t, cublasLtMatmulDescAttributes_t
inline constexpr int kLayoutType = 0;
inline constexpr int kLayoutOrder = 1;
inline constexpr int kLayoutRows = 2;
inline constexpr int kLayoutCols = 3;
inline constexpr int kLayoutBatch = 5;
inline constexpr int kDescComputeType = 0;
inline constexpr int kDescTransA = 3;
inline constexpr int kDescTransB = 4;
inline constexpr int kDescEpilogue = 7;
inline constexpr int kDescScaleA = 17;
inline constexpr int kDescScaleB = 18;
inline constexpr int kOrderRow = 1;
// Words of cublasLtMatrixLayoutOpaque_t, 8 bytes each.
inline constexpr int kLayoutWords = 8;

// cudaDataType_t
inline constexpr int kR32F = 0;
inline constexpr int kR64F = 1;
inline constexpr int kR16F = 2;
inline constexpr int kC32F = 4;
inline constexpr int kC64F = 5;
inline constexpr int kR16BF = 14;
// cudaDeviceAttr
inline constexpr int kAttributeComputeMajor = 75;
// cublasComputeType_t
inline constexpr int kCompute16F = 64;
inline constexpr int kCompute32F = 68;
inline constexpr int kCompute64F = 70;

struct NcclUniqueId {
  char internal[128];
};

// The head of ncclConfig_t. Its first member is the size of the caller's structure.
struct NcclConfig {
  size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cga_cluster_size;
  int min_ctas;
  int max_ctas;
  const char* net_name;
  int split_share;
  int traffic_class;
  const char* comm_name;  // from 2.27 on
};
inline constexpr unsigned kNcclConfigMagic = 0xcafebeef;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclSplitNoColor = -1;

// clang-format off
using NcclReduceAll = int(const void* send, void* receive, size_t count, int type, int op, void* comm, void* stream);
using NcclReduce = int(const void* send, void* receive, size_t count, int type, int op, int root, void* comm, void* stream);
using NcclRooted = int(const void* send, void* receive, size_t count, int type, int root, void* comm, void* stream);
using NcclInPlace = int(void* buffer, size_t count, int type, int root, void* comm, void* stream);
using NcclPlain = int(const void* send, void* receive, size_t count, int type, void* comm, void* stream);
using NcclSendTo = int(const void* send, size_t count, int type, int peer, void* comm, void* stream);
using NcclReceiveFrom = int(void* receive, size_t count, int type, int peer, void* comm, void* stream);
using NcclGroup = int();
using NcclInit = int(void** comm, int nranks, NcclUniqueId id, int rank);
using NcclInitConfig = int(void** comm, int nranks, NcclUniqueId id, int rank, NcclConfig* config);
using NcclInitScalable = int(void** comm, int nranks, int rank, int id_count, NcclUniqueId* ids, NcclConfig* config);
using NcclInitAll = int(void** comms, int device_count, const int* devices);
using NcclSplit = int(void* comm, int color, int key, void** new_comm, NcclConfig* config);
using NcclOnComm = int(void* comm);
using NcclRegister = int(void* comm, void* buffer, size_t size, void** handle);
using NcclDeregister = int(void* comm, void* handle);
using NcclQuery = int(void* comm, int* value);
using NcclVersion = int(int* version);

using CudaMalloc = int(void** pointer, size_t size);
using CudaMallocManaged = int(void** pointer, size_t size, unsigned flags);
using CudaMallocAsync = int(void** pointer, size_t size, void* stream);
using CudaMallocFromPool = int(void** pointer, size_t size, void* pool, void* stream);
using CudaHostAlloc = int(void** pointer, size_t size, unsigned flags);
using CudaFree = int(void* pointer);
using CudaFreeAsync = int(void* pointer, void* stream);
using CuMemCreate = int(unsigned long long* handle, size_t size, const void* properties, unsigned long long flags);
using CuMemRelease = int(unsigned long long handle);
using CuMemMap = int(unsigned long long address, size_t size, size_t offset, unsigned long long handle, unsigned long long flags);
using CuMemUnmap = int(unsigned long long address, size_t size);
using CudaMemcpy = int(void* to, const void* from, size_t size, int kind);
using CudaMemcpyAsync = int(void* to, const void* from, size_t size, int kind, void* stream);
using CudaMemcpy2D = int(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int kind);
using CudaMemcpy2DAsync = int(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, int kind, void* stream);
using CudaMemcpyPeer = int(void* to, int to_device, const void* from, int from_device, size_t size);
using CudaMemcpyPeerAsync = int(void* to, int to_device, const void* from, int from_device, size_t size, void* stream);
using CudaMemset = int(void* to, int value, size_t size);
using CudaMemsetAsync = int(void* to, int value, size_t size, void* stream);
using CudaGraphLaunch = int(void* graph, void* stream);
using CudaBeginCapture = int(void* stream, int mode);
using CudaEndCapture = int(void* stream, void** graph);
struct Dim3 {
  unsigned x, y, z;
};
using CudaLaunchKernel = int(const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared, void* stream);
using CudaLaunchKernelEx = int(const void* config, const void* function, void** arguments);
using CuLaunchKernel = int(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                           unsigned block_z, unsigned shared, void* stream, void** arguments, void** extra);
using CuLaunchKernelEx = int(const void* config, void* function, void** arguments, void** extra);
// clang-format on

// The head of cudaLaunchConfig_t, and of CUlaunchConfig, whose shared memory size has 4 bytes and 4 of
// padding.
struct LaunchConfig {
  Dim3 grid;
  Dim3 block;
  size_t shared;
  void* stream;
};

// cudaMemcpyKind
inline constexpr int kHostToDevice = 1;
inline constexpr int kDeviceToHost = 2;
inline constexpr int kDeviceToDevice = 3;

inline constexpr int kCudaErrorNotReady = 600;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureModeRelaxed = 2;

}  // namespace xpurun::preload
