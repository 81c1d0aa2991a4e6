#include "commands/replay/schedule.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using report::Measurements;
using report::RunMatmul;
using report::RunOperations;

namespace {

struct Repeat {
  int64_t m = 0;  // of the matmul that was prepared
  int calls = 0;
  int overwrites = 0;
};

// Each call takes `call_ns`, the first five ten times as long.
class FakeBench : public MatmulBench {
 public:
  base::Status prepare(const report::MatmulProblem& problem) override {
    prepared_ = problem;
    made_ = 0;
    return problem.m == refused ? base::fail("too large") : base::Status();
  }
  base::Result<std::vector<double>> repeat(int calls, int overwrites) override {
    log.push_back({prepared_.m, calls, overwrites});
    if (prepared_.m == failing && log.size() > 3) {
      return base::fail("the GPU is lost");
    }
    std::vector<double> out;
    for (int i = 0; i < calls; ++i) {
      out.push_back(made_++ < 5 ? 10 * call_ns : call_ns);
    }
    return out;
  }
  double overwrite_ns() const override { return 40'000; }
  const ClockReading& clock() const override { return reading; }

  double call_ns = 100'000;
  int64_t refused = -1;
  int64_t failing = -1;
  ClockReading reading;
  std::vector<Repeat> log;

 private:
  report::MatmulProblem prepared_;
  int made_ = 0;
};

RunOperations run_of(const std::vector<int64_t>& sizes, double busy = 0) {
  RunOperations out;
  out.busy = busy;
  out.ranks.push_back({.rank = 0, .gpu = "NVIDIA H200"});
  for (const int64_t m : sizes) {
    RunMatmul& to = out.matmuls.emplace_back();
    to.key.api = static_cast<uint16_t>(wire::Api::cublasGemmEx);
    std::fill(std::begin(to.key.dtype), std::end(to.key.dtype), uint8_t{14});
    to.key.compute = 68;
    to.key.m = m;
    to.key.n = to.key.k = to.key.batch = 1;
    to.ranks.push_back({.rank = 0, .count = 1, .median_s = 1e-4});
  }
  return out;
}

Measurements measure(const RunOperations& run, FakeBench& bench, size_t most = 10) {
  Measurements out;
  int done = 0;
  repeat_matmuls(run, most, Schedule(), bench, out, [&done] { ++done; });
  CHECK(done == static_cast<int>(out.matmuls.size()));
  return out;
}

// GPU time of the repetitions of a matmul, ns.
double spent(const FakeBench& bench, int64_t m) {
  double out = 0;
  for (const Repeat& r : bench.log) {
    out += r.m == m ? r.calls * (bench.call_ns + r.overwrites * bench.overwrite_ns()) : 0;
  }
  return out;
}

}  // namespace

TEST_CASE("the first shape warms the GPU up, every shape is warmed up and measured") {
  FakeBench bench;
  const Measurements out = measure(run_of({1, 2}), bench);
  REQUIRE(out.matmuls.size() == 2);
  CHECK(spent(bench, 1) == doctest::Approx(2e9 + 500 * 140'000).epsilon(0.01));
  // The most calls bound the warm-up and the measurement.
  CHECK(out.matmuls[1].ns.size() == 500);
  CHECK(spent(bench, 2) == doctest::Approx(2 * 500 * 140'000).epsilon(0.02));
  // The slow first calls are not among the measured ones.
  CHECK(*std::max_element(out.matmuls[0].ns.begin(), out.matmuls[0].ns.end()) == bench.call_ns);
}

TEST_CASE("a long call is repeated at least twenty times") {
  FakeBench bench;
  bench.call_ns = 100e6;
  const Measurements out = measure(run_of({1}), bench);
  CHECK(out.matmuls[0].ns.size() == 20);
}

TEST_CASE("between the calls, the GPU does other work for as long as in the run") {
  CHECK(overwrites_for(1e6, 4e4, 0) == 1);  // unknown
  CHECK(overwrites_for(1e6, 4e4, 0.5) == 25);
  CHECK(overwrites_for(1e6, 4e4, 1) == 1);
  CHECK(overwrites_for(1e6, 4e4, 0.01) == 58);  // as with 0.3
  CHECK(overwrites_for(1e9, 4e4, 0.5) == 64);
  CHECK(overwrites_for(1e6, 0, 0.5) == 1);
  FakeBench bench;
  measure(run_of({1}, 0.5), bench);
  CHECK(bench.log.front().overwrites == 1);
  CHECK(bench.log.back().overwrites == 3);  // 100 us of calls, 40 us each
}

TEST_CASE("an operation that fails does not end the replay") {
  FakeBench bench;
  bench.refused = 1;
  bench.failing = 2;
  const Measurements out = measure(run_of({1, 2, 3}), bench);
  CHECK(out.matmuls[0].skipped == "too large");
  CHECK(out.matmuls[1].skipped == "the GPU is lost");
  CHECK(out.matmuls[1].ns.empty());
  CHECK(out.matmuls[2].skipped.empty());
  RunOperations run = run_of({1});
  run.matmuls[0].key.flags = wire::kOpGrouped;
  FakeBench untouched;
  CHECK(measure(run, untouched).matmuls[0].skipped.find("grouped") == 0);
  CHECK(untouched.log.empty());
  CHECK(measure(run_of({1, 2, 3}), untouched, 2).matmuls.size() == 2);
}

TEST_CASE("a call that is shorter than what the events add has no speed") {
  FakeBench bench;
  bench.call_ns = 0;
  const Measurements out = measure(run_of({1}), bench);
  CHECK(out.matmuls[0].ns.empty());
  CHECK(out.matmuls[0].skipped.find("events") != std::string::npos);
}

TEST_CASE("clocks: the median of the shapes, the highest temperature, each limit once") {
  FakeBench bench;
  CHECK(measure(run_of({1}), bench).device.sm_clock_mhz == -1);
  bench.reading = {.sm_mhz = 1500,
                   .sm_most_mhz = 1980,
                   .temperature_c = 60,
                   .power_w = 690,
                   .throttle_reasons = {model::ThrottleReason::power_cap}};
  const Measurements out = measure(run_of({1, 2}), bench);
  CHECK(out.device.sm_clock_mhz == 1500);
  CHECK(out.matmuls[1].sm_clock_mhz == 1500);
  CHECK(out.device.sm_clock_max_mhz == 1980);
  CHECK(out.device.temperature_c == 60);
  CHECK(out.device.power_w == 690);
  CHECK(out.device.throttle_reasons == std::vector{model::ThrottleReason::power_cap});
}

namespace {

class FakeCollectives : public CollectiveBench {
 public:
  int devices() const override { return 2; }
  base::Status prepare(const report::CollectiveProblem&) override { return {}; }
  base::Result<std::vector<double>> repeat(int calls) override {
    return std::vector<double>(static_cast<size_t>(calls), 1e6);
  }
};

}  // namespace

TEST_CASE("collectives are repeated, others are skipped with the reason") {
  RunOperations run;
  for (const wire::Api api : {wire::Api::ncclAllReduce, wire::Api::ncclAlltoAll}) {
    report::RunCollective& to = run.collectives.emplace_back();
    to.key.api = static_cast<uint16_t>(api);
    to.key.dtype[0] = 9;
    to.bytes = 4096;
  }
  FakeCollectives bench;
  Measurements out;
  repeat_collectives(run, 10, Schedule(), bench, out, [] {});
  CHECK(out.devices == 2);
  REQUIRE(out.collectives.size() == 2);
  CHECK(out.collectives[0].ns.size() >= 20);
  CHECK(out.collectives[1].skipped.find("not known") != std::string::npos);
}
