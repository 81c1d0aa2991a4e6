#include "common/model/timing/op_names.h"
#include "launcher/metrics/exposition.h"
#include "tests/support/golden.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

using namespace xpurun::launcher;
using xpurun::testing::expect_golden;
namespace base = xpurun::base;
namespace wire = xpurun::wire;

namespace {

OpTotals op(wire::Api api, wire::OpClass op_class, int type, uint64_t calls, uint64_t work,
            uint64_t timed_ns) {
  OpTotals out{};
  out.key.api = static_cast<uint16_t>(api);
  out.key.op_class = static_cast<uint8_t>(op_class);
  out.key.dtype[0] = static_cast<uint8_t>(type);
  out.key.compute = 68;
  out.key.comm = op_class == wire::OpClass::collective ? 0 : wire::kNoComm;
  out.calls = calls;
  out.work = calls * work;
  out.timed = calls / 2;
  out.timed_work = out.timed * work;
  out.timed_ns = timed_ns;
  return out;
}

// A rank of a sharded training job: two data types, four kinds of collective, the usual memory calls.
RankTiming sample() {
  RankTiming t;
  t.rank = 3;
  t.local_rank = 3;
  t.level = wire::Level::light;
  t.period = 4;
  t.device_name = "NVIDIA H200";
  t.device_uuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10";
  t.pci_bus_id = "0000:1B:00.0";
  for (const HealthField& field : kHealthFields) {
    t.health.*field.value = 7;
  }
  t.events_made = 512;
  t.events_in_flight = 2;
  t.ops = {op(wire::Api::cublasGemmEx, wire::OpClass::matmul, 14, 100, 1'000'000'000'000, 100'000'000),
           op(wire::Api::cublasLtMatmul, wire::OpClass::matmul, 0, 10, 1'000'000, 50'000)};
  for (const auto api : {wire::Api::ncclAllGather, wire::Api::ncclReduceScatter, wire::Api::ncclAllReduce,
                         wire::Api::ncclSend}) {
    t.ops.push_back(op(api, wire::OpClass::collective, 9, 20, 1 << 30, 30'000'000));
  }
  for (const auto api :
       {wire::Api::cudaMalloc, wire::Api::cudaFree, wire::Api::cudaHostAlloc, wire::Api::cudaMemsetAsync}) {
    t.ops.push_back(op(api, wire::OpClass::memory, 0, 5, api == wire::Api::cudaFree ? 0 : 4096, 1'000));
  }
  for (const uint8_t direction : {uint8_t{1}, uint8_t{2}, uint8_t{3}}) {
    t.ops.push_back(op(wire::Api::cudaMemcpyAsync, wire::OpClass::memory, 0, 5, 4096, 1'000));
    t.ops.back().key.copy = direction;
  }
  t.ops.push_back(op(wire::Api::cudaLaunchKernel, wire::OpClass::kernel, 0, 5000, 0, 25'000'000));
  CommTotals comm{};
  comm.state = static_cast<uint32_t>(wire::CommState::live);
  comm.nranks = 8;
  comm.launched = 60;
  comm.done = 58;
  comm.marked = 60;
  t.comms = {comm};
  t.matmul_durations["bf16"].add(0.001);
  t.matmul_durations["bf16"].add(2);
  t.matmul_durations["fp32"].add(5e-6);
  for (const char* name : {"AllGather", "ReduceScatter", "AllReduce", "SendRecv"}) {
    t.collective_durations[name].add(0.003);
  }
  t.collective_ways[{4, 2, 2}] = {.calls = 30, .channels = 240};
  t.collective_ways[{4, 2, 3}] = {.calls = 10, .channels = 160};
  t.collective_ways[{4, 7, 3}] = {.calls = 2, .channels = 2};
  t.collective_ways[{1, 0, 0}] = {.calls = 5, .channels = 0};
  RecentSeries& matmuls = t.recent[{wire::OpClass::matmul, 10, "Matmul"}];
  matmuls.dtype = "bf16";
  matmuls.samples = {{0, 451, 2.0 * 1024 * 1024 * 1024}, {0, 1175, 6.0 * 1024 * 1024 * 1024}};
  RecentSeries& collectives = t.recent[{wire::OpClass::collective, 20, "AllGather"}];
  collectives.dtype = "bf16";
  collectives.how = {2, 3, 16};
  collectives.samples = {{0, 100, 4e7}};
  return t;
}

NodeMetrics node_of(const RankTiming& timing) {
  NodeMetrics node{.version = "1.2.3",
                   .host = "a",
                   .job = "train #1 \"x\"\\",
                   .pod = "",
                   .ip = "10.0.0.1",
                   .slow_events = 2,
                   .mismatches = 1,
                   .ranks = {}};
  node.ranks.push_back({.rank = 2, .local_rank = 2, .hung = true, .timing = nullptr});
  node.ranks.push_back(
      {.rank = 3,
       .local_rank = 3,
       .hung = false,
       .steps = 4120,
       .step_s = 0.171,
       .collections = 3,
       .batches = 12,
       .lateness = {.looked_s = 20, .late_s = 2.5, .cost_s = 1.25, .late_share = 0.125, .exposed_share = 0.3},
       .cpu = {.ready_s = 1.5, .throttled_s = 6.2, .stolen_s = 0.25},
       .memory = {.resident_bytes = 3'221'225'472, .helpers_bytes = 536'870'912},
       .timing = &timing});
  return node;
}

}  // namespace

TEST_CASE("both formats match their golden texts") {
  const RankTiming timing = sample();
  expect_golden("metrics/prometheus.txt", expose(node_of(timing), MetricsFormat::prometheus));
  expect_golden("metrics/openmetrics.txt", expose(node_of(timing), MetricsFormat::openmetrics));
}

TEST_CASE("properties that readers of the XPU_TIMER_* names rely on") {
  const RankTiming timing = sample();
  std::istringstream lines(expose(node_of(timing), MetricsFormat::prometheus));
  int hang_lines = 0;
  int series_of_ours = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) {
      continue;
    }
    // They drop every line that contains one of these characters.
    CHECK(line.find('#') == std::string::npos);
    CHECK(line.find("exposer") == std::string::npos);
    if (line.starts_with("XPU_TIMER_COMMON_HANG")) {
      ++hang_lines;
      CHECK(line.starts_with("XPU_TIMER_COMMON_HANG{"));
      CHECK((line.ends_with(" 1") || line.ends_with(" 0")));
    }
    series_of_ours += line.starts_with("xpurun_") && line.find("rank=\"3\"") != std::string::npos ? 1 : 0;
  }
  CHECK(hang_lines == 2);
  CHECK(series_of_ours <= 159);
  const std::string text = expose(node_of(timing), MetricsFormat::prometheus);
  // (2 + 6) * 1024^3 FLOP in 1626 us.
  CHECK(text.find("XPU_TIMER_MM_KERNEL_FLOPS{ip=\"10.0.0.1\"") != std::string::npos);
  CHECK(text.find(" 5.28") != std::string::npos);
}

TEST_CASE("a rank has at most 161 xpurun_* series with any mix of calls") {
  RankTiming t = sample();
  t.ops.clear();
  for (int type = 0; type < 40; ++type) {
    t.ops.push_back(op(wire::Api::cublasGemmEx, wire::OpClass::matmul, type, 100, 1'000'000, 100'000));
    t.matmul_durations["type" + std::to_string(type)].add(0.001);
  }
  for (size_t api = 0; api < wire::kApiCount; ++api) {
    const auto op_class = wire::kApis[api].op_class;
    for (uint8_t copy = 0; copy < 5; ++copy) {
      t.ops.push_back(op(static_cast<wire::Api>(api), op_class, 0, 100 + api, 4096, 1'000));
      t.ops.back().key.copy = copy;
    }
    if (op_class == wire::OpClass::collective) {
      t.collective_durations[wire::kApis[api].name].add(0.003);
    }
  }
  for (uint8_t source = 1; source <= 5; ++source) {
    for (uint8_t algorithm = 0; algorithm <= 7; ++algorithm) {
      t.collective_ways[{source, algorithm, 1}] = {.calls = 1, .channels = 2};
    }
  }
  NodeMetrics node = node_of(t);
  node.ranks[1].still_s = 3;
  std::istringstream lines(expose(node, MetricsFormat::prometheus));
  int series = 0;
  double calls = 0;
  for (std::string line; std::getline(lines, line);) {
    series += line.starts_with("xpurun_") && line.find("rank=\"3\"") != std::string::npos ? 1 : 0;
    calls += line.starts_with("xpurun_matmul_calls_total{rank=\"3\"")
                 ? std::stod(line.substr(line.find("} ") + 2))
                 : 0;
  }
  CHECK(series <= 161);
  CHECK(series > 100);
  double expected = 0;
  for (const OpTotals& o : t.ops) {
    expected +=
        o.key.op_class == static_cast<uint8_t>(wire::OpClass::matmul) ? static_cast<double>(o.calls) : 0;
  }
  CHECK(calls == expected);
}

TEST_CASE("before the first rank is known, one line reports no hang") {
  const std::string text = expose({.version = "1", .host = "a"}, MetricsFormat::prometheus);
  CHECK(text.find(
            "XPU_TIMER_COMMON_HANG{ip=\"NOT_SET\",job_name=\"NOT_SET\",local_rank=\"0\",pod_name=\"NOT_SET\","
            "rank=\"0\"} 0\n") != std::string::npos);
}

TEST_CASE("the atorch_* names, on request") {
  RankTiming t = sample();
  t.shapes[{.batch = 1, .m = 1024, .n = 1024, .k = 1024}] = {
      .samples = {{0, 776, 0}, {0, 813, 0}}, .calls = 9, .calls_per_s = 335};
  t.shapes[{.batch = 3, .m = 8, .n = 4, .k = 2}] = {.samples = {{0, 2, 0}}, .calls = 3, .calls_per_s = 1};
  NodeMetrics node = node_of(t);
  CHECK(expose(node, MetricsFormat::prometheus).find("atorch") == std::string::npos);
  node.shapes = true;
  const std::string text = expose(node, MetricsFormat::prometheus);
  const std::string labels =
      "{host_name=\"a\",job_name=\"train 1 \\\"x\\\"\\\\\",pod_name=\"unknown\",rank=\"3\",type=";
  for (const auto& [name, value] :
       {std::pair("qps", "335"), std::pair("avg_latency", "794.5"), std::pair("max_latency", "813"),
        std::pair("p80_latency", "813"), std::pair("p90_latency", "813"), std::pair("p99_latency", "813"),
        std::pair("p999_latency", "813"), std::pair("p9999_latency", "813")}) {
    CHECK(text.find("atorch_mm_mnk_1024_1024_1024_" + std::string(name) + labels + "\"mm\"} " + value +
                    "\n") != std::string::npos);
  }
  CHECK(text.find("atorch_bmm_bmnk_3_8_4_2_qps" + labels + "\"bmm\"} 1\n") != std::string::npos);
}

TEST_CASE("the source of the peak") {
  RankTiming t = sample();
  NodeMetrics node = node_of(t);
  const auto ratio = [&](const std::string& dtype) {
    const std::string text = expose(node, MetricsFormat::prometheus);
    const size_t at = text.find("xpurun_matmul_peak_ratio{rank=\"3\",dtype=\"" + dtype + "\",");
    const size_t begin = text.find("peak=", at);
    return at == std::string::npos ? "" : text.substr(begin, text.find('\n', at) - begin);
  };
  // 50 calls of 1e12 FLOP in 0.1 s.
  CHECK(ratio("bf16").starts_with("peak=\"table\"} 0.505"));
  node.peaks = *xpurun::model::Peaks::parse("bf16=1P");
  CHECK(ratio("bf16") == "peak=\"option\"} 0.5");
  CHECK(ratio("fp32").starts_with("peak=\"table\"} "));
  node.peaks = {};
  t.device_name = "Something else";
  CHECK(ratio("bf16") == "");
  t.best_flops["bf16"] = 625e12;
  CHECK(ratio("bf16") == "peak=\"measured\"} 0.8");
  CHECK(ratio("fp32") == "");
  // A sum needs a known peak for each of its parts.
  for (const int type : {3, 29}) {
    t.ops.push_back(
        op(wire::Api::cublasGemmEx, wire::OpClass::matmul, type, 100, 1'000'000'000'000, 100'000'000));
  }
  t.best_flops["int8"] = 1e15;
  CHECK(ratio("other") == "");
  t.best_flops["fp8_e5m2"] = 1e15;
  CHECK(ratio("other") == "peak=\"measured\"} 0.5");
}

TEST_CASE("formulas") {
  CHECK(xpurun::model::bus_factor("AllReduce", 8) == doctest::Approx(1.75));
  CHECK(xpurun::model::bus_factor("AllGather", 8) == doctest::Approx(0.875));
  CHECK(xpurun::model::bus_factor("Broadcast", 8) == 1);
  CHECK(xpurun::model::bus_factor("AllReduce", 1) == 0);
}

TEST_CASE("histograms are cumulative when shown and exact at their bounds") {
  Histogram h;
  h.add(1e-4);
  h.add(1.1e-4);
  h.add(5);
  CHECK(h.counts.front() == 1);
  CHECK(h.counts.back() == 1);
  CHECK(h.total() == 3);
}

TEST_CASE("what the kernel counts about the host has a series for each fact and object") {
  NodeMetrics node{.version = "1", .host = "a", .ranks = {}};
  CHECK(expose(node, MetricsFormat::prometheus).find("xpurun_host_") == std::string::npos);
  node.machine = {{.fact = model::MachineFact::link_recoveries, .object = "mlx5_0/1", .last = 505},
                  {.fact = model::MachineFact::storage_wait, .object = "/data", .last = 2.5e6, .rank = 4},
                  {.fact = model::MachineFact::space, .object = "/", .last = 0.5}};
  const std::string text = expose(node, MetricsFormat::prometheus);
  CHECK(text.find("xpurun_host_events_total{fact=\"link_recoveries\",object=\"mlx5_0/1\"} 505\n") !=
        std::string::npos);
  CHECK(
      text.find("xpurun_host_wait_seconds_total{fact=\"storage_wait\",object=\"/data\",rank=\"4\"} 2.5\n") !=
      std::string::npos);
  CHECK(text.find("xpurun_host_level{fact=\"space\",object=\"/\"} 0.5\n") != std::string::npos);
}

TEST_CASE("the time in which a GPU was throttled has a series for each reason") {
  NodeMetrics node{.version = "1", .host = "a", .ranks = {}};
  CHECK(expose(node, MetricsFormat::prometheus).find("xpurun_gpu_") == std::string::npos);
  GpuThrottling gpu{.uuid = "GPU-x", .observed_s = 100};
  gpu.throttled_s[static_cast<size_t>(model::ThrottleReason::thermal)] = 25;
  gpu.throttled_s[static_cast<size_t>(model::ThrottleReason::idle)] = 50;
  node.gpus = {gpu};
  const std::string text = expose(node, MetricsFormat::prometheus);
  CHECK(text.find("xpurun_gpu_clock_observed_seconds_total{gpu_uuid=\"GPU-x\"} 100\n") != std::string::npos);
  CHECK(text.find("xpurun_gpu_throttled_seconds_total{gpu_uuid=\"GPU-x\",reason=\"thermal\"} 25\n") !=
        std::string::npos);
  CHECK(text.find("reason=\"power_cap\"} 0\n") != std::string::npos);
  CHECK(text.find("idle") == std::string::npos);
}
