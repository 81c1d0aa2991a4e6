// The calls that repeat a recorded matmul or collective, or the reason why they cannot. Numbers are those of
// CUDA, cuBLAS and NCCL. Pure.
#pragma once

#include "common/base/result.h"
#include "report/replay/run_operations.h"

#include <cstdint>
#include <string>

namespace xpurun::report {

enum class MatmulCall {
  gemm,     // cublasGemmEx
  strided,  // cublasGemmStridedBatchedEx
  batched,  // cublasGemmBatchedEx
  lt,       // cublasLtMatmul
};

struct Matrix {
  int type = 0;      // cudaDataType_t
  int64_t rows = 0;  // also the leading dimension: columns lie side by side
  int64_t columns = 0;
};

struct MatmulProblem {
  MatmulCall call = MatmulCall::gemm;
  int transpose_a = 0;  // cublasOperation_t
  int transpose_b = 0;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  Matrix a;  // as stored
  Matrix b;
  Matrix c;
  Matrix d;
  int compute = 0;     // cublasComputeType_t
  int scale_type = 0;  // cudaDataType_t of alpha and beta
  int epilogue = 1;    // cublasLtEpilogue_t
  bool scale_a = false;
  bool scale_b = false;
  bool accumulate = false;  // D += A B, of cublasGemmEx only
  bool tf32 = false;        // fp32 of the run was faster than fp32 can be
};

// `gpu`: name of the run's GPU, for the peak of fp32. The error says why the call cannot be repeated.
base::Result<MatmulProblem> problem_of(const RunMatmul& matmul, const std::string& gpu);

// Bits of an element, 0 if unknown.
int bits_of_cuda_type(int type);
uint64_t bytes_of(const Matrix& matrix, int64_t batch);
// FLOP of one call.
double flop_of(const RunMatmul& matmul);

// "bias", "gelu, bias", "gradient of gelu"; empty: none.
std::string epilogue_name(int epilogue);
bool has_bias(int epilogue);
// The epilogue writes or reads a matrix of the size of D.
bool has_auxiliary(int epilogue);
// The epilogue writes the gradient of a bias, as long as rows of D or, for `b_side`, as columns.
bool has_bias_gradient(int epilogue);

struct CollectiveProblem {
  wire::Api api{};
  int type = 0;             // ncclDataType_t
  int reduction = 0;        // ncclRedOp_t
  uint64_t count = 0;       // argument of the call
  uint64_t send_bytes = 0;  // of a rank's buffers
  uint64_t receive_bytes = 0;
};
// For `devices` ranks; the bytes of the call are those of the run.
base::Result<CollectiveProblem> problem_of(const RunCollective& collective, int devices);

}  // namespace xpurun::report
