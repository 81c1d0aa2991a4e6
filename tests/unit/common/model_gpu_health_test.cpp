// What was read of GPUs every few seconds: windows, bounded; sums between two moments.
#include "common/model/evidence/gpu_health.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using model::GpuHealth;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

// One reading every five seconds; throttled by heat from `hot` on.
GpuHealth watched_for(int seconds, int hot) {
  GpuHealth out;
  for (int at = 5; at <= seconds; at += 5) {
    model::GpuClockReading reading{.uuid = "GPU-a", .sm_mhz = at > hot ? 1200 : 1980};
    if (at > hot) {
      reading.reasons = {model::ThrottleReason::thermal};
    }
    out.add({reading, {.uuid = "GPU-b"}}, at * kSecond, 5);
  }
  return out;
}

}  // namespace

TEST_CASE("gpu health: shares of the readings between two moments") {
  const GpuHealth health = watched_for(600, 300);
  const auto before = health.clocks(0, 300 * kSecond);
  REQUIRE(before.size() == 2);
  CHECK(before[0].uuid == "GPU-a");
  CHECK(before[0].samples == 60);
  CHECK(before[0].sm_median_mhz == 1980);
  CHECK(before[0].throttled.empty());
  const auto after = health.clocks(300 * kSecond, 600 * kSecond);
  REQUIRE(after.size() == 2);
  CHECK(after[0].sm_median_mhz == 1200);
  CHECK(after[0].throttled == std::vector<model::ThrottleShare>{{model::ThrottleReason::thermal, 1}});
  CHECK(after[1].sm_median_mhz == -1);  // the driver does not tell
  CHECK(health.clocks(700 * kSecond, 800 * kSecond).empty());
}

TEST_CASE("gpu health: a neighbour counts if it computed for nearly all of the time") {
  GpuHealth health;
  for (int at = 5; at <= 300; at += 5) {
    model::GpuClockReading reading{.uuid = "GPU-a", .sm_mhz = 1980};
    if (at >= 100 && at <= 205) {
      reading.neighbours = {"python3 (pid 7)"};
    }
    health.add({reading, {.uuid = "GPU-b"}}, at * kSecond, 5);
  }
  const auto neighbour = [&](int from, int until) {
    return health.clocks(from * kSecond, until * kSecond).front().neighbour;
  };
  CHECK(neighbour(100, 200) == "python3 (pid 7)");
  CHECK(neighbour(90, 215) == "python3 (pid 7)");
  CHECK(neighbour(50, 200).empty());
  CHECK(neighbour(100, 300).empty());
  CHECK(health.clocks(100 * kSecond, 200 * kSecond)[1].neighbour.empty());
  const auto back = model::gpu_health_from_json(nlohmann::json::parse(to_json(health).dump()));
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(health));
  GpuHealth many;
  for (int i = 0; i < 1000; ++i) {
    many.add({{.uuid = "GPU-a", .neighbours = {std::to_string(i)}}}, i * kSecond, 5);
  }
  CHECK(many.gpus[0].neighbours.size() == model::kMostNeighbours);
}

TEST_CASE("gpu health: days of readings stay small, and none is lost") {
  const int days = 3 * 86'400;
  const GpuHealth health = watched_for(days, days / 2);
  CHECK(health.gpus[0].windows.size() <= 512);
  CHECK(health.gpus[0].windows.size() >= 128);
  const auto all = health.clocks(0, int64_t{days} * kSecond);
  CHECK(all[0].samples == days / 5);
  REQUIRE(all[0].throttled.size() == 1);
  CHECK(all[0].throttled[0].share == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("gpu health: JSON and back") {
  const GpuHealth health = watched_for(120, 60);
  const auto back = model::gpu_health_from_json(nlohmann::json::parse(to_json(health).dump()));
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(health));
  CHECK(!model::gpu_health_from_json(nlohmann::json::parse(R"({"schema": "x"})")));
}

TEST_CASE("gpu health: facts join those of the host, with the GPU's number and its rank") {
  GpuHealth gpus;
  gpus.inventory.units = {{.index = 0, .pci = "0000:3b:00.0"}, {.index = 1, .pci = "0000:4b:00.0"}};
  for (const double lanes_missing : {1.0, 1.0}) {
    gpus.counted.add(
        {.values = {{.fact = model::MachineFact::pcie_narrow, .object = "GPU 1", .value = lanes_missing},
                    {.fact = model::MachineFact::xid, .object = "GPU 0 Xid 79", .value = 1}},
         .places = {},
         .missing = {}},
        (gpus.counted.readings + 1) * kSecond);
  }
  model::MachineHistory host;
  host.add({.values = {{.fact = model::MachineFact::pcie_narrow,
                        .object = "0000:4b:00.0 (GPU)",
                        .value = 1,
                        .detail = "x4 of x16"},
                       {.fact = model::MachineFact::pcie_narrow, .object = "0000:5b:00.0 (GPU)", .value = 0}},
            .places = {{.rank = 7, .pid = 1, .cpus = "0", .gpu = "0000:4b:00.0"},
                       {.rank = 8, .pid = 2, .cpus = "0", .gpu = "0000:3b:00.0"},
                       {.rank = 9, .pid = 3, .cpus = "0", .gpu = "0000:3b:00.0"}},
            .missing = {}},
           kSecond);
  add_gpu_facts(host, gpus);
  REQUIRE(host.series.size() == 3);
  CHECK(host.series[0].object == "GPU 1");
  CHECK(host.series[0].detail == "x4 of x16");
  CHECK(host.series[0].rank == 7);
  CHECK(host.series[1].object == "0000:5b:00.0 (GPU)");  // NVML does not know this one
  CHECK(host.series[2].object == "GPU 0 Xid 79");
  CHECK(host.series[2].rank == base::kNoRank);  // two ranks share the GPU
}

TEST_CASE("gpu health: what was counted and the inventory survive JSON") {
  GpuHealth gpus;
  gpus.inventory = {
      .units = {{.index = 1, .uuid = "GPU-b", .serial = "165", .power_limit_w = 700, .nvlinks = 18}},
      .paths = {{.from = 0, .to = 1, .path = "NV18"}}};
  gpus.counted.add(
      {.values = {{.fact = model::MachineFact::ecc_corrected, .object = "GPU 1", .value = 3, .before = 0}},
       .places = {},
       .missing = {}},
      kSecond);
  const auto back = model::gpu_health_from_json(nlohmann::json::parse(to_json(gpus).dump()));
  REQUIRE(back);
  CHECK(back->inventory == gpus.inventory);
  CHECK(to_json(*back) == to_json(gpus));
}

TEST_CASE("gpu health: names of GPUs") {
  CHECK(model::gpu_index_of("GPU 12") == 12);
  CHECK(model::gpu_index_of("GPU 3 NVLink 5") == 3);
  CHECK(model::gpu_index_of("GPU") == -1);
  CHECK(model::gpu_index_of("eth0") == -1);
  CHECK(model::kernel_pci("00000000:3B:00.0") == "0000:3b:00.0");
  CHECK(model::kernel_pci("0000:1B:00.0") == "0000:1b:00.0");
}
