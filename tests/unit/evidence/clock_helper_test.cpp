#include "launcher/evidence/clock_helper.h"

#include "launcher/evidence/nvml.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("clocks: medians, extremes and shares of many readings") {
  ClockSummary summary;
  for (int i = 0; i < 10; ++i) {
    model::GpuDevice d{.uuid = "GPU-x",
                       .sm_clock_mhz = i == 0 ? 300 : 1900 + i,
                       .sm_clock_max_mhz = 1980,
                       .power_w = 500.0 + i,
                       .temperature_c = 60 + i};
    if (i < 4) {
      d.throttle_reasons = {model::ThrottleReason::power_cap};
    }
    summary.add({d});
  }
  const auto clocks = summary.clocks();
  REQUIRE(clocks.size() == 1);
  CHECK(clocks[0].samples == 10);
  CHECK(clocks[0].sm_lowest_mhz == 300);
  CHECK(clocks[0].sm_median_mhz == 1905);
  CHECK(clocks[0].sm_limit_mhz == 1980);
  CHECK(clocks[0].power_w == 505);
  CHECK(clocks[0].temperature_c == 69);
  CHECK(clocks[0].utilization_percent == -1);
  CHECK(clocks[0].throttled == std::vector<model::ThrottleShare>{{model::ThrottleReason::power_cap, 0.4}});
  CHECK(ClockSummary().clocks().empty());
}

TEST_CASE("clocks: two GPUs by NVML, and none") {
  const char* library = std::getenv("XPURUN_FAKE_NVML");
  REQUIRE(library != nullptr);
  const auto samples = sample_clocks(0.05, library);
  CHECK(samples.reason.empty());
  REQUIRE(samples.gpus.size() == 2);
  CHECK(samples.gpus[1].uuid == "GPU-1");
  CHECK(samples.gpus[0].sm_median_mhz == 345);
  CHECK(samples.gpus[0].samples >= 1);
  // The driver's list of processes, by which the ranks that share a GPU are not asked for their kernels.
  auto gpus = GpuSpeeds::open(library);
  REQUIRE(gpus);
  const auto watched = watched_gpus_from(watched_line(gpus->read(true)));
  REQUIRE(watched.size() == 2);
  CHECK(watched[1].processes == std::vector<base::Pid>{4711, 4712});
  REQUIRE(samples.gpus[0].throttled.size() == 3);
  CHECK(samples.gpus[0].throttled[0].reason == model::ThrottleReason::hardware_slowdown);
  CHECK(samples.gpus[0].throttled[1].reason == model::ThrottleReason::thermal);
  CHECK(samples.gpus[0].throttled[2].reason == model::ThrottleReason::hardware_thermal);
  CHECK(samples.interval_s > 0);
  CHECK(sample_clocks(0.05, "libno-such-nvml.so.1").reason == "libno-such-nvml.so.1 is not installed");
}

TEST_CASE("clocks: the line of a reading, and back") {
  const std::string line = watched_line({{.uuid = "GPU-x",
                                          .sm_clock_mhz = 1200,
                                          .throttle_reasons = {model::ThrottleReason::thermal},
                                          .processes = {{.pid = 7}, {.pid = 9}}},
                                         {.uuid = "GPU-y"}});
  CHECK(line.ends_with("\n"));
  const auto back = watched_gpus_from(line);
  REQUIRE(back.size() == 2);
  CHECK(back[0].uuid == "GPU-x");
  CHECK(back[0].sm_mhz == 1200);
  CHECK(back[0].processes == std::vector<base::Pid>{7, 9});
  CHECK(back[1].processes.empty());
  CHECK(back[0].reasons == std::vector{model::ThrottleReason::thermal});
  const auto later =
      watched_gpus_from(R"([{"uuid": "a", "mhz": 1, "reasons": ["no such reason", "idle"], "pids": []}])");
  REQUIRE(later.size() == 1);
  CHECK(later[0].reasons == std::vector{model::ThrottleReason::idle});
  CHECK(back[1].sm_mhz == -1);
  for (const char* damaged : {"", "[", "{}x", "[1]", R"([{"uuid": 3}])", R"([{"uuid": "a", "mhz": "b"}])"}) {
    CHECK(watched_gpus_from(damaged).empty());
  }
}

TEST_CASE("clock helper: a program that computes on the GPU of a rank and is not of the job") {
  model::GpuDevice gpu{.index = 0};
  gpu.uuid = "GPU-x";
  gpu.processes = {{.pid = 4, .sm_percent = 60}, {.pid = 7, .sm_percent = 40}, {.pid = 8, .sm_percent = 0}};
  const std::string line = watched_line({gpu});
  const auto neighbours = [&](base::Pid of_job) {
    model::GpuHealth health;
    const auto out = add_line(health, line, 5, 5, [&](base::Pid pid) {
      return pid == of_job ? std::string() : "other " + std::to_string(pid);
    });
    REQUIRE(out.size() == 1);
    CHECK(health.gpus[0].neighbours.size() == out[0].neighbours.size());
    return out[0].neighbours;
  };
  CHECK(neighbours(4) == std::vector<std::string>{"other 7"});
  CHECK(neighbours(9).empty());  // the driver numbers processes otherwise
}
