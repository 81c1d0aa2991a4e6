#include "commands/burn/burn_text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr size_t kMatmul = 0;
constexpr size_t kMemory = 1;
constexpr size_t kToGpu = 2;
constexpr size_t kPeer = 4;

// Healthy GPUs that differ as GPUs of one model do.
Burn burn_of(int count) {
  Burn out{.seconds = 60};
  for (int i = 0; i < count; ++i) {
    BurnedGpu gpu;
    gpu.unit = {.index = i, .name = "NVIDIA H100 80GB HBM3", .serial = "165" + std::to_string(i)};
    gpu.unit.power_limit_w = gpu.unit.power_default_w = 700;
    gpu.unit.pcie_width = 16;
    gpu.unit.nvlinks = 18;
    gpu.peak_flops = 989e12;
    const double better = 1 + 0.005 * (i % 3);
    gpu.rates[kMatmul] = {700e12 * better, 702e12 * better, 698e12 * better, 701e12 * better};
    gpu.rates[kMemory] = {2.9e12, 2.91e12, 2.9e12};
    gpu.rates[kToGpu] = gpu.rates[3] = {i < 4 ? 55e9 : 48e9, 54e9, 55e9};  // of another NUMA node
    gpu.rates[kPeer] = {390e9, 391e9, 390e9};
    gpu.clocks.sm_median_mhz = 1740 + i;
    gpu.results = {7, 7, 7, 7};
    out.gpus.push_back(std::move(gpu));
  }
  return out;
}

void slow_down(BurnedGpu& gpu, size_t work, double factor) {
  for (double& rate : gpu.rates[work]) {
    rate *= factor;
  }
}

std::vector<std::string> sentences(const Burn& burn) {
  std::vector<std::string> out;
  for (const BurnFault& fault : judge_burn(burn)) {
    out.push_back(fault.sentence);
  }
  return out;
}

using Sentences = std::vector<std::string>;

}  // namespace

TEST_CASE("burn: healthy GPUs, of one and of several") {
  for (const int count : {1, 2, 8}) {
    const Burn burn = burn_of(count);
    CHECK(sentences(burn).empty());
    CHECK_FALSE(has_faults(burn));
    CHECK(to_json(burn)["ok"] == true);
  }
}

TEST_CASE("burn: a slower GPU, with the difference that explains it") {
  Burn burn = burn_of(8);
  slow_down(burn.gpus[3], kMatmul, 0.88);
  CHECK(sentences(burn) ==
        Sentences{"GPU 3 (serial 1653) is 12 % slower in bf16 matmul: limits and clocks are those "
                  "of the others"});
  burn.gpus[3].clocks.sm_median_mhz = 1410;
  CHECK(sentences(burn).front().ends_with(": SM clock 1410 MHz instead of 1743 MHz"));
  burn.gpus[3].clocks.throttled = {{model::ThrottleReason::hardware_thermal, 0.43},
                                   {model::ThrottleReason::power_cap, 1}};
  CHECK(sentences(burn).front().ends_with(": hardware_thermal for 43 % of the time"));
  burn.gpus[3].unit.power_limit_w = 500;
  CHECK(sentences(burn).front().ends_with(": power limit 500 W instead of 700 W"));
  burn.gpus[3].is_shared = true;
  CHECK(sentences(burn).front().ends_with(": other processes use the GPU"));
  burn.gpus[3].other_pids = {4711, 4712};
  CHECK(sentences(burn).front().ends_with(": other processes use the GPU (pid 4711, 4712)"));
  CHECK(has_faults(burn));
}

TEST_CASE("burn: of two GPUs the better one is the measure") {
  Burn burn = burn_of(2);
  slow_down(burn.gpus[0], kMatmul, 0.8);
  const auto faults = judge_burn(burn);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].gpu == 0);
  CHECK(faults[0].slower == doctest::Approx(0.2).epsilon(0.05));
}

TEST_CASE("burn: links and memory") {
  Burn burn = burn_of(8);
  slow_down(burn.gpus[5], kToGpu, 0.5);
  burn.gpus[5].unit.pcie_width = 8;
  slow_down(burn.gpus[6], kPeer, 0.6);
  burn.gpus[6].unit.nvlinks = 11;
  slow_down(burn.gpus[7], kMemory, 0.9);
  Sentences all = sentences(burn);
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() == 3);
  CHECK(all[0].find("GPU 5 (serial 1655) is ") == 0);
  CHECK(all[0].ends_with("slower in copies from the host: 8 PCIe lanes instead of 16"));
  CHECK(all[1].ends_with("slower in copies to another GPU: 11 NVLinks are up instead of 18"));
  CHECK(all[2].ends_with("10 % slower in memory bandwidth: limits and clocks are those of the others"));
}

TEST_CASE("burn: rounds that differ as much as the GPUs are no fault") {
  Burn burn = burn_of(2);
  burn.gpus[1].rates[kMatmul] = {500e12, 800e12, 640e12, 620e12};
  CHECK(sentences(burn).empty());
}

TEST_CASE("burn: wrong results name the GPU, once there is a majority") {
  Burn burn = burn_of(3);
  burn.gpus[1].results = {7, 8, 7, 7};
  CHECK(sentences(burn) ==
        Sentences{"GPU 1 (serial 1651) computes wrong results: the same matmuls gave other bits in "
                  "1 of 4 rounds"});
  Burn two = burn_of(2);
  two.gpus[1].results = {8, 8, 8, 8};
  const auto faults = judge_burn(two);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].gpu == -1);
  CHECK(faults[0].sentence ==
        "the same matmuls give different bits on GPU 0 (serial 1650), GPU 1 (serial 1651): one "
        "of them computes wrong results");
  Burn one = burn_of(1);
  one.gpus[0].results = {7, 7, 7, 9};
  CHECK(sentences(one) ==
        Sentences{"GPU 0 (serial 1650) computes wrong results: the same matmuls gave other bits in "
                  "1 of 4 rounds"});
  // Another model may round in another order.
  Burn mixed = burn_of(4);
  for (const size_t i : {2, 3}) {
    mixed.gpus[i].unit.name = "NVIDIA H200";
    mixed.gpus[i].results = {9, 9, 9, 9};
  }
  CHECK(sentences(mixed).empty());
}

TEST_CASE("burn: damaged copies, a GPU that fails, all GPUs far below their peak") {
  Burn burn = burn_of(2);
  burn.gpus[0].bad_copies = 2;
  burn.gpus[1].problem = "waiting for the GPU: uncorrectable ECC error";
  CHECK(sentences(burn) ==
        Sentences{"GPU 1 (serial 1651) cannot be measured: waiting for the GPU: uncorrectable ECC error",
                  "GPU 0 (serial 1650) changes data: 2 copies differ from what was copied"});
  Burn slow = burn_of(2);
  for (BurnedGpu& gpu : slow.gpus) {
    slow_down(gpu, kMatmul, 0.4);
    gpu.clocks.throttled = {{model::ThrottleReason::power_brake, 1}};
  }
  const auto faults = judge_burn(slow);
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].kind == BurnFaultKind::below_peak);
  CHECK(faults[0].sentence.ends_with(
      "% of its model's peak in bf16 matmul: power_brake for 100 % of the time"));
}

TEST_CASE("burn: the table fits") {
  const Burn burn = burn_of(8);
  for (const size_t columns : {40, 80, 200}) {
    const std::string text = burn_text(burn, columns);
    CHECK(text.find("The GPUs work as fast as each other") != std::string::npos);
  }
  CHECK(burn_text(burn, 200).find("1653") != std::string::npos);
}
