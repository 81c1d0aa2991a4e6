// The vendor functions that the preload library hooks, and their kinds of operation. The numbers are part of
// the wire layout (segment.h): append, never reorder.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

// `host` stands for no function: it holds the host time of single calls of any function.
enum class OpClass : uint8_t { none, matmul, collective, memory, graph, kernel, control, host };

// X(function, class)
#define XPURUN_APIS(X)                     \
  X(cublasSgemm_v2, matmul)                \
  X(cublasDgemm_v2, matmul)                \
  X(cublasCgemm_v2, matmul)                \
  X(cublasZgemm_v2, matmul)                \
  X(cublasHgemm, matmul)                   \
  X(cublasCgemm3m, matmul)                 \
  X(cublasZgemm3m, matmul)                 \
  X(cublasSgemm_v2_64, matmul)             \
  X(cublasDgemm_v2_64, matmul)             \
  X(cublasCgemm_v2_64, matmul)             \
  X(cublasZgemm_v2_64, matmul)             \
  X(cublasHgemm_64, matmul)                \
  X(cublasSgemmBatched, matmul)            \
  X(cublasDgemmBatched, matmul)            \
  X(cublasCgemmBatched, matmul)            \
  X(cublasZgemmBatched, matmul)            \
  X(cublasHgemmBatched, matmul)            \
  X(cublasSgemmBatched_64, matmul)         \
  X(cublasDgemmBatched_64, matmul)         \
  X(cublasCgemmBatched_64, matmul)         \
  X(cublasZgemmBatched_64, matmul)         \
  X(cublasHgemmBatched_64, matmul)         \
  X(cublasSgemmStridedBatched, matmul)     \
  X(cublasDgemmStridedBatched, matmul)     \
  X(cublasCgemmStridedBatched, matmul)     \
  X(cublasZgemmStridedBatched, matmul)     \
  X(cublasHgemmStridedBatched, matmul)     \
  X(cublasSgemmStridedBatched_64, matmul)  \
  X(cublasDgemmStridedBatched_64, matmul)  \
  X(cublasCgemmStridedBatched_64, matmul)  \
  X(cublasZgemmStridedBatched_64, matmul)  \
  X(cublasHgemmStridedBatched_64, matmul)  \
  X(cublasSgemmEx, matmul)                 \
  X(cublasCgemmEx, matmul)                 \
  X(cublasSgemmEx_64, matmul)              \
  X(cublasCgemmEx_64, matmul)              \
  X(cublasGemmEx, matmul)                  \
  X(cublasGemmEx_64, matmul)               \
  X(cublasGemmBatchedEx, matmul)           \
  X(cublasGemmBatchedEx_64, matmul)        \
  X(cublasGemmStridedBatchedEx, matmul)    \
  X(cublasGemmStridedBatchedEx_64, matmul) \
  X(cublasSgemmGroupedBatched, matmul)     \
  X(cublasDgemmGroupedBatched, matmul)     \
  X(cublasSgemmGroupedBatched_64, matmul)  \
  X(cublasDgemmGroupedBatched_64, matmul)  \
  X(cublasGemmGroupedBatchedEx, matmul)    \
  X(cublasGemmGroupedBatchedEx_64, matmul) \
  X(cublasLtMatmul, matmul)                \
  X(ncclAllReduce, collective)             \
  X(ncclReduce, collective)                \
  X(ncclBroadcast, collective)             \
  X(ncclBcast, collective)                 \
  X(ncclAllGather, collective)             \
  X(ncclReduceScatter, collective)         \
  X(ncclAlltoAll, collective)              \
  X(ncclGather, collective)                \
  X(ncclScatter, collective)               \
  X(ncclSend, collective)                  \
  X(ncclRecv, collective)                  \
  X(ncclGroupStart, control)               \
  X(ncclGroupEnd, control)                 \
  X(ncclCommInitRank, control)             \
  X(ncclCommInitRankConfig, control)       \
  X(ncclCommInitRankScalable, control)     \
  X(ncclCommInitAll, control)              \
  X(ncclCommSplit, control)                \
  X(ncclCommFinalize, control)             \
  X(ncclCommDestroy, control)              \
  X(ncclCommAbort, control)                \
  X(ncclCommRegister, control)             \
  X(ncclCommDeregister, control)           \
  X(cudaMalloc, memory)                    \
  X(cudaMallocManaged, memory)             \
  X(cudaMallocAsync, memory)               \
  X(cudaMallocFromPoolAsync, memory)       \
  X(cudaMallocHost, memory)                \
  X(cudaHostAlloc, memory)                 \
  X(cudaFree, memory)                      \
  X(cudaFreeAsync, memory)                 \
  X(cudaFreeHost, memory)                  \
  X(cuMemCreate, memory)                   \
  X(cuMemRelease, memory)                  \
  X(cuMemMap, memory)                      \
  X(cuMemUnmap, memory)                    \
  X(cudaMemcpy, memory)                    \
  X(cudaMemcpyAsync, memory)               \
  X(cudaMemcpy2D, memory)                  \
  X(cudaMemcpy2DAsync, memory)             \
  X(cudaMemcpyPeer, memory)                \
  X(cudaMemcpyPeerAsync, memory)           \
  X(cudaMemset, memory)                    \
  X(cudaMemsetAsync, memory)               \
  X(cudaGraphLaunch, graph)                \
  X(cudaStreamBeginCapture, control)       \
  X(cudaStreamEndCapture, control)         \
  X(cudaLaunchKernel, kernel)              \
  X(cudaLaunchKernelExC, kernel)           \
  X(__cudaLaunchKernel, kernel)            \
  X(cuLaunchKernel, kernel)                \
  X(cuLaunchKernelEx, kernel)

enum class Api : uint16_t {
#define XPURUN_API_ENUM(name, op_class) name,
  XPURUN_APIS(XPURUN_API_ENUM)
#undef XPURUN_API_ENUM
};

struct ApiInfo {
  const char* name;
  OpClass op_class;
};

inline constexpr ApiInfo kApis[] = {
#define XPURUN_API_INFO(name, op_class) {#name, OpClass::op_class},
    XPURUN_APIS(XPURUN_API_INFO)
#undef XPURUN_API_INFO
};
inline constexpr size_t kApiCount = sizeof(kApis) / sizeof(kApis[0]);

}  // namespace xpurun::wire
