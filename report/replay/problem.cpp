#include "report/replay/problem.h"

#include "common/model/timing/cuda_types.h"
#include "common/model/timing/op_names.h"
#include "common/model/timing/peaks.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

namespace xpurun::report {

namespace {

using namespace model::cuda_types;
using wire::Api;

// cublasComputeType_t
constexpr int kCompute16F = 64;
constexpr int kCompute32F = 68;
constexpr int kCompute32FastTF32 = 77;
constexpr int kCompute64F = 70;
constexpr int kCompute64FPedantic = 71;
constexpr int kCompute16FPedantic = 65;
constexpr int kCompute32I = 72;
constexpr int kCompute32IPedantic = 73;
constexpr int kR32I = 10;
constexpr int kE2M1 = 33;
// cublasLtEpilogue_t is a set of these bits.
constexpr int kDefault = 1;
constexpr int kRelu = 2;
constexpr int kBias = 4;
constexpr int kReluGradient = 8;
constexpr int kBiasGradient = 16;
constexpr int kGelu = 32;
constexpr int kGeluGradient = 64;
constexpr int kAuxiliary = 128;
constexpr int kBiasGradientA = 256;
constexpr int kBiasGradientB = 512;
constexpr int kKnownEpilogues = 1023;

struct Family {
  Api first;
  Api last;
  MatmulCall call;
};
// The numbers of functions are part of the wire layout and never change their order.
constexpr Family kFamilies[] = {
    {Api::cublasSgemm_v2, Api::cublasHgemm, MatmulCall::gemm},
    {Api::cublasSgemm_v2_64, Api::cublasHgemm_64, MatmulCall::gemm},
    {Api::cublasSgemmBatched, Api::cublasHgemmBatched_64, MatmulCall::batched},
    {Api::cublasSgemmStridedBatched, Api::cublasHgemmStridedBatched_64, MatmulCall::strided},
    {Api::cublasSgemmEx, Api::cublasGemmEx_64, MatmulCall::gemm},
    {Api::cublasGemmBatchedEx, Api::cublasGemmBatchedEx_64, MatmulCall::batched},
    {Api::cublasGemmStridedBatchedEx, Api::cublasGemmStridedBatchedEx_64, MatmulCall::strided},
    {Api::cublasLtMatmul, Api::cublasLtMatmul, MatmulCall::lt},
};

std::optional<MatmulCall> call_of(uint16_t api) {
  for (const Family& family : kFamilies) {
    if (api >= static_cast<uint16_t>(family.first) && api <= static_cast<uint16_t>(family.last)) {
      return family.call;
    }
  }
  return std::nullopt;
}

bool is_complex(int type) {
  return type == kC32F || type == kC64F;
}

std::optional<int> scale_type_of(int compute, int type) {
  switch (compute) {
    case kCompute16F:
    case kCompute16FPedantic:
      return kR16F;
    case kCompute64F:
    case kCompute64FPedantic:
      return is_complex(type) ? kC64F : kR64F;
    case kCompute32I:
    case kCompute32IPedantic:
      return kR32I;
    default:
      return compute >= kCompute32F && compute < 80 ? std::optional(is_complex(type) ? kC32F : kR32F)
                                                    : std::nullopt;
  }
}

Matrix matrix(int type, int64_t rows, int64_t columns, bool swapped) {
  return {type, swapped ? columns : rows, swapped ? rows : columns};
}

bool used_tf32(const RunMatmul& matmul, const MatmulProblem& p, const std::string& gpu) {
  if (p.compute != kCompute32F || p.a.type != kR32F || p.b.type != kR32F || matmul.median_s <= 0) {
    return false;
  }
  const double peak = model::Peaks().of(gpu, kR32F, kCompute32F);
  return peak > 0 && flop_of(matmul) / matmul.median_s > peak;
}

bool has_reduction(Api api) {
  return api == Api::ncclAllReduce || api == Api::ncclReduce || api == Api::ncclReduceScatter;
}

int bytes_of_nccl_type(int type) {
  constexpr int kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < static_cast<int>(std::size(kBytes)) ? kBytes[type] : 0;
}

}  // namespace

int bits_of_cuda_type(int type) {
  switch (type) {
    case kE2M1:
      return 4;
    case kR8I:
    case kE4M3:
    case kE5M2:
      return 8;
    case kR16F:
    case kR16BF:
      return 16;
    case kR32F:
    case kR32I:
      return 32;
    case kR64F:
    case kC32F:
      return 64;
    case kC64F:
      return 128;
    default:
      return 0;
  }
}

uint64_t bytes_of(const Matrix& m, int64_t batch) {
  return static_cast<uint64_t>(m.rows) * static_cast<uint64_t>(m.columns) * static_cast<uint64_t>(batch) *
         static_cast<uint64_t>(bits_of_cuda_type(m.type)) / 8;
}

double flop_of(const RunMatmul& matmul) {
  return static_cast<double>(matmul.flop);
}

std::string epilogue_name(int epilogue) {
  std::string out;
  const auto add = [&](int bit, std::string_view name) {
    if ((epilogue & bit) != 0) {
      out += (out.empty() ? "" : ", ") + std::string(name);
    }
  };
  add(kRelu, "relu");
  add(kGelu, "gelu");
  add(kReluGradient, "gradient of relu");
  add(kGeluGradient, "gradient of gelu");
  add(kBias, "bias");
  add(kBiasGradient | kBiasGradientA | kBiasGradientB, "gradient of bias");
  return out;
}

bool has_bias(int epilogue) {
  return (epilogue & kBias) != 0;
}
bool has_auxiliary(int epilogue) {
  return (epilogue & kAuxiliary) != 0;
}
bool has_bias_gradient(int epilogue) {
  return (epilogue & (kBiasGradient | kBiasGradientA | kBiasGradientB)) != 0;
}

base::Result<MatmulProblem> problem_of(const RunMatmul& matmul, const std::string& gpu) {
  const model::EventKey& key = matmul.key;
  const auto call = call_of(key.api);
  if ((key.flags & wire::kOpGrouped) != 0) {
    return base::fail("grouped; the sizes of the groups are not recorded");
  }
  if (!call || key.api == static_cast<uint16_t>(Api::cublasCgemm3m) ||
      key.api == static_cast<uint16_t>(Api::cublasZgemm3m)) {
    return base::fail("a replay of this function is not known");
  }
  if ((key.flags & wire::kOpRowMajor) != 0) {
    return base::fail("row-major; the layouts of A and B are not recorded");
  }
  MatmulProblem p{.call = *call, .m = key.m, .n = key.n, .k = key.k, .batch = key.batch};
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const int64_t size : {p.m, p.n, p.k, p.batch}) {
    if (size < 1 || size > kMost) {
      return base::fail("a size is zero or above 2^31");
    }
  }
  p.transpose_a = key.trans & 15;
  p.transpose_b = key.trans >> 4;
  p.a = matrix(key.dtype[0], p.m, p.k, p.transpose_a != 0);
  p.b = matrix(key.dtype[1], p.k, p.n, p.transpose_b != 0);
  p.c = matrix(key.dtype[2], p.m, p.n, false);
  p.d = matrix(key.dtype[3], p.m, p.n, false);
  for (const Matrix* one : {&p.a, &p.b, &p.c, &p.d}) {
    if (bits_of_cuda_type(one->type) < 8) {
      return base::fail(fmt::format("matrices of {} are not supported", model::cuda_type_name(one->type)));
    }
    if (one->rows * one->columns > std::numeric_limits<int64_t>::max() / 64 / p.batch) {
      return base::fail("larger than any memory");
    }
  }
  p.compute = key.compute;
  const auto scale = scale_type_of(p.compute, p.a.type);
  if (!scale) {
    return base::fail(fmt::format("compute type {} is not known", p.compute));
  }
  p.scale_type = *scale;
  if (used_tf32(matmul, p, gpu)) {
    p.tf32 = true;
    p.compute = kCompute32FastTF32;
  }
  p.epilogue = *call == MatmulCall::lt ? key.epilogue : kDefault;
  if (p.epilogue < 1 || p.epilogue > kKnownEpilogues) {
    return base::fail(fmt::format("epilogue {} is not known", p.epilogue));
  }
  p.scale_a = (key.flags & wire::kOpScaleA) != 0;
  p.scale_b = (key.flags & wire::kOpScaleB) != 0;
  return p;
}

base::Result<CollectiveProblem> problem_of(const RunCollective& collective, int devices) {
  const auto api = static_cast<Api>(collective.key.api);
  CollectiveProblem p{.api = api,
                      .type = collective.key.dtype[0],
                      .reduction = has_reduction(api) ? collective.key.compute : 0};
  const auto element = static_cast<uint64_t>(bytes_of_nccl_type(p.type));
  if (element == 0) {
    return base::fail(fmt::format("elements of {} are not known", model::nccl_type_name(p.type)));
  }
  // ncclRedOp_t: larger numbers are made by ncclRedOpCreatePreMulSum.
  if (p.reduction > 4) {
    return base::fail("a reduction that the program has made");
  }
  const auto n = static_cast<uint64_t>(devices);
  const uint64_t all = collective.bytes / element;
  const uint64_t part = all / n;
  switch (api) {
    case Api::ncclAllReduce:
    case Api::ncclReduce:
    case Api::ncclBroadcast:
    case Api::ncclBcast:
      p.count = all;
      p.send_bytes = p.receive_bytes = all * element;
      break;
    case Api::ncclAllGather:
      p.count = part;
      p.send_bytes = part * element;
      p.receive_bytes = part * n * element;
      break;
    case Api::ncclReduceScatter:
      p.count = part;
      p.send_bytes = part * n * element;
      p.receive_bytes = part * element;
      break;
    default:
      return base::fail("a replay of this function is not known");
  }
  return p.count > 0 ? base::Result<CollectiveProblem>(p) : base::fail("no elements");
}

}  // namespace xpurun::report
