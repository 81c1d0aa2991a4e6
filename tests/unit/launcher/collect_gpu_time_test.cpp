#include "launcher/collect/gpu_time.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;
namespace wire = xpurun::wire;

namespace {

struct Timed {
  uint64_t calls, ns;
};

OpTotals op(wire::Api api, wire::OpClass op_class, uint64_t calls, uint64_t work, Timed timed) {
  OpTotals out{};
  out.key.api = static_cast<uint16_t>(api);
  out.key.op_class = static_cast<uint8_t>(op_class);
  out.calls = calls;
  out.work = calls * work;
  out.timed = timed.calls;
  out.timed_ns = timed.ns;
  out.timed_work = timed.calls * work;
  return out;
}

OpTotals matmul(uint64_t calls, uint64_t flop, Timed timed) {
  return op(wire::Api::cublasGemmEx, wire::OpClass::matmul, calls, flop, timed);
}
OpTotals kernel(uint64_t calls, Timed timed) {
  return op(wire::Api::cudaLaunchKernel, wire::OpClass::kernel, calls, 0, timed);
}

}  // namespace

TEST_CASE("GPU time by kind, each entry by its own samples") {
  const GpuTime time = estimate_gpu_time({matmul(1000, 50, {10, 1'000'000}), matmul(10, 50, {1, 500'000'000}),
                                          kernel(30'000, {100, 1'000'000}), kernel(100, {100, 100'000'000})});
  CHECK(time.kinds[0].name == "matmul");
  CHECK(time.kinds[0].calls == 1010);
  CHECK(time.kinds[0].samples == 11);
  CHECK(time.kinds[0].seconds == doctest::Approx(0.1 + 5));
  CHECK(time.kinds[4].name == "untraced");
  CHECK(time.kinds[4].seconds == doctest::Approx(0.3 + 0.1));
  CHECK(time.samples() == 211);
  CHECK(time.untraced_share() == doctest::Approx(0.4 / 5.5));
}

TEST_CASE("an entry without samples takes the mean of its kind") {
  // 0.05 ns per FLOP.
  CHECK(estimate_gpu_time({matmul(10, 2000, {10, 1000}), matmul(3, 200'000, {0, 0})}).kinds[0].seconds ==
        doctest::Approx(1000e-9 + 30'000e-9));
  CHECK(estimate_gpu_time({kernel(10, {10, 1000}), kernel(3, {0, 0})}).kinds[4].seconds ==
        doctest::Approx(1300e-9));
}

TEST_CASE("blocking calls count as host time") {
  const auto memory = [](wire::Api api) { return op(api, wire::OpClass::memory, 10, 4096, {10, 1'000'000}); };
  const GpuTime time =
      estimate_gpu_time({memory(wire::Api::cudaMalloc), memory(wire::Api::cudaMemcpy),
                         memory(wire::Api::cudaMallocAsync), memory(wire::Api::cudaMemcpyAsync)});
  CHECK(time.kinds[2].calls == 10);
  CHECK(time.kinds[2].seconds == doctest::Approx(0.001));
}

TEST_CASE("no share until every kind with calls has a sample") {
  CHECK(estimate_gpu_time({}).untraced_share() < 0);
  CHECK(estimate_gpu_time({kernel(10, {10, 0})}).untraced_share() < 0);
  std::vector<OpTotals> ops = {matmul(10, 50, {1, 100}), kernel(30, {2, 100})};
  CHECK(estimate_gpu_time(ops).untraced_share() == doctest::Approx(0.6));
  ops.push_back(op(wire::Api::ncclAllReduce, wire::OpClass::collective, 5, 4096, {0, 0}));
  CHECK(estimate_gpu_time(ops).untraced_share() < 0);
  CHECK(estimate_gpu_time(ops).kinds[1].calls == 5);
  // A kind without calls needs no sample.
  ops.back().calls = 0;
  CHECK(estimate_gpu_time(ops).untraced_share() == doctest::Approx(0.6));
}
