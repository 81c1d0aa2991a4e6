#include "report/replay/problem.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using wire::Api;

namespace {

constexpr int kFp32 = 0;
constexpr int kFp64 = 1;
constexpr int kBf16 = 14;

RunMatmul matmul(Api api, int type = kBf16, int compute = 68) {
  RunMatmul out;
  out.key.api = static_cast<uint16_t>(api);
  for (uint8_t& one : out.key.dtype) {
    one = static_cast<uint8_t>(type);
  }
  out.key.compute = static_cast<uint8_t>(compute);
  out.key.m = 64;
  out.key.n = 48;
  out.key.k = 32;
  out.key.batch = 1;
  out.key.epilogue = 1;
  out.flop = 2 * 64 * 48 * 32;
  return out;
}

std::string reason(const RunMatmul& m) {
  const auto p = problem_of(m, "");
  return p ? "" : p.error().what;
}

RunCollective collective(Api api, uint64_t bytes, int type = 7) {
  RunCollective out;
  out.key.api = static_cast<uint16_t>(api);
  out.key.dtype[0] = static_cast<uint8_t>(type);
  out.bytes = bytes;
  out.size = 8;
  return out;
}

}  // namespace

TEST_CASE("matrices as they are stored") {
  RunMatmul m = matmul(Api::cublasGemmEx);
  auto p = problem_of(m, "");
  REQUIRE(p);
  CHECK(p->a.rows == 64);
  CHECK(p->a.columns == 32);
  CHECK(p->b.rows == 32);
  CHECK(p->d.columns == 48);
  CHECK(bytes_of(p->a, 3) == 64 * 32 * 2 * 3);
  m.key.trans = 0x21;  // T and C
  p = problem_of(m, "");
  CHECK(p->a.rows == 32);
  CHECK(p->b.rows == 48);
  CHECK(p->transpose_b == 2);
}

TEST_CASE("the function decides the call") {
  const auto call = [](Api api) { return problem_of(matmul(api), "")->call; };
  CHECK(call(Api::cublasSgemm_v2) == MatmulCall::gemm);
  CHECK(call(Api::cublasHgemm_64) == MatmulCall::gemm);
  CHECK(call(Api::cublasGemmEx_64) == MatmulCall::gemm);
  CHECK(call(Api::cublasSgemmBatched) == MatmulCall::batched);
  CHECK(call(Api::cublasGemmBatchedEx) == MatmulCall::batched);
  CHECK(call(Api::cublasSgemmStridedBatched) == MatmulCall::strided);
  CHECK(call(Api::cublasHgemmStridedBatched_64) == MatmulCall::strided);
  CHECK(call(Api::cublasGemmStridedBatchedEx) == MatmulCall::strided);
  CHECK(call(Api::cublasLtMatmul) == MatmulCall::lt);
  // Each matmul function that a run may record has a decision.
  for (size_t i = 0; i < wire::kApiCount; ++i) {
    if (wire::kApis[i].op_class == wire::OpClass::matmul) {
      const std::string_view name = wire::kApis[i].name;
      CAPTURE(name);
      const bool known =
          name.find("Grouped") == std::string_view::npos && name.find("3m") == std::string_view::npos;
      CHECK(problem_of(matmul(static_cast<Api>(i)), "").has_value() == known);
    }
  }
}

TEST_CASE("the scale type follows the compute type") {
  const auto scale = [](int type, int compute) {
    return problem_of(matmul(Api::cublasGemmEx, type, compute), "")->scale_type;
  };
  CHECK(scale(kBf16, 68) == kFp32);
  CHECK(scale(2, 64) == 2);
  CHECK(scale(kFp64, 70) == kFp64);
  CHECK(scale(4, 68) == 4);
  CHECK(scale(5, 70) == 5);
  CHECK(scale(3, 72) == 10);
}

TEST_CASE("what cannot be repeated has a reason") {
  RunMatmul m = matmul(Api::cublasLtMatmul);
  m.key.flags = wire::kOpRowMajor;
  CHECK(reason(m).find("row-major") == 0);
  m.key.flags = wire::kOpGrouped;
  CHECK(reason(m).find("grouped") == 0);
  m = matmul(Api::cublasGemmEx, 33);
  CHECK(reason(m).find("fp4") != std::string::npos);
  m = matmul(Api::cublasGemmEx, kBf16, 3);
  CHECK(reason(m).find("compute type 3") == 0);
  m = matmul(Api::cublasGemmEx);
  m.key.n = 0;
  CHECK(reason(m).find("a size is zero") == 0);
  m.key.n = int64_t{1} << 31;
  CHECK(reason(m).find("a size is zero or above") == 0);
  m.key.n = m.key.m = m.key.batch = 0x7fffffff;
  CHECK(reason(m) == "larger than any memory");
  m = matmul(Api::cublasLtMatmul);
  m.key.epilogue = 4096;
  CHECK(reason(m) == "epilogue 4096 is not known");
  m = matmul(Api::cublasGemmEx);
  m.key.api = wire::kApiCount;
  CHECK(reason(m).find("not known") != std::string::npos);
}

TEST_CASE("epilogues") {
  CHECK(epilogue_name(1).empty());
  CHECK(epilogue_name(0).empty());
  CHECK(epilogue_name(4) == "bias");
  CHECK(epilogue_name(164) == "gelu, bias");
  CHECK(epilogue_name(208) == "gradient of gelu, gradient of bias");
  CHECK(epilogue_name(512) == "gradient of bias");
  CHECK(has_bias(36));
  CHECK_FALSE(has_bias(32));
  CHECK(has_auxiliary(160));
  CHECK_FALSE(has_auxiliary(32));
  CHECK(has_bias_gradient(152));
  // Only cuBLASLt has them.
  RunMatmul m = matmul(Api::cublasGemmEx);
  m.key.epilogue = 0;
  CHECK(problem_of(m, "")->epilogue == 1);
}

TEST_CASE("fp32 that is faster than fp32 can be went through the tensor cores") {
  RunMatmul m = matmul(Api::cublasSgemm_v2, kFp32);
  m.flop = 1'000'000'000'000;
  m.median_s = 1.0 / 300;  // 300 TFLOP/s; an H200 has 66.9 in fp32
  CHECK(problem_of(m, "NVIDIA H200")->tf32);
  CHECK(problem_of(m, "NVIDIA H200")->compute == 77);
  CHECK_FALSE(problem_of(m, "unknown")->tf32);
  m.median_s = 1.0 / 50;
  CHECK_FALSE(problem_of(m, "NVIDIA H200")->tf32);
}

TEST_CASE("a collective moves the same bytes with another number of GPUs") {
  const auto reduce = problem_of(collective(Api::ncclAllReduce, 4096), 2);
  REQUIRE(reduce);
  CHECK(reduce->count == 1024);
  CHECK(reduce->send_bytes == 4096);
  const auto gather = problem_of(collective(Api::ncclAllGather, 4096), 2);
  CHECK(gather->count == 512);
  CHECK(gather->send_bytes == 2048);
  CHECK(gather->receive_bytes == 4096);
  const auto scatter = problem_of(collective(Api::ncclReduceScatter, 4096), 4);
  CHECK(scatter->count == 256);
  CHECK(scatter->send_bytes == 4096);
  CHECK_FALSE(problem_of(collective(Api::ncclAlltoAll, 4096), 2));
  CHECK_FALSE(problem_of(collective(Api::ncclSend, 4096), 2));
  CHECK_FALSE(problem_of(collective(Api::ncclAllReduce, 4096, 99), 2));
  CHECK_FALSE(problem_of(collective(Api::ncclAllGather, 4), 8));
  RunCollective made = collective(Api::ncclAllReduce, 4096);
  made.key.compute = 9;
  CHECK(problem_of(made, 2).error().what.find("reduction") != std::string::npos);
}
