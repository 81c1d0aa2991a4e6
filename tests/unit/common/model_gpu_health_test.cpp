// What was read of GPUs every few seconds: windows, bounded; sums between two moments.
#include "common/model/speed/gpu_health.h"

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
