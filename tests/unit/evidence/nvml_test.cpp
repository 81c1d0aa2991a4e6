#include "launcher/evidence/nvml.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace xpurun;
using namespace xpurun::launcher;
using model::EvidenceStatus;

namespace {

GpuReading read_fake(const char* mode) {
  const char* library = std::getenv("XPURUN_FAKE_NVML");
  REQUIRE(library != nullptr);
  ::setenv("FAKE_NVML", mode, 1);
  GpuReading out = read_gpus(library);
  ::unsetenv("FAKE_NVML");
  return out;
}

}  // namespace

TEST_CASE("NVML: the data of two GPUs") {
  const GpuReading reading = read_fake("");
  CHECK(reading.status == EvidenceStatus::ok);
  CHECK(reading.state.driver == "580.1");
  REQUIRE(reading.state.devices.size() == 2);
  const model::GpuDevice& d = reading.state.devices[0];
  CHECK(d.name == "FAKE-0");
  CHECK(d.uuid == "GPU-0");
  CHECK(d.pci == "00000000:3B:00.0");
  CHECK(d.sm_clock_mhz == 345);
  CHECK(d.sm_clock_max_mhz == 1980);
  CHECK(d.memory_clock_mhz == 2619);
  CHECK(d.throttle_reasons == std::vector{model::ThrottleReason::hardware_slowdown,
                                          model::ThrottleReason::thermal,
                                          model::ThrottleReason::hardware_thermal});
  CHECK(d.power_w == 123.5);
  CHECK(d.power_limit_w == -1);
  CHECK(d.temperature_c == 88);
  CHECK(d.utilization_percent == 100);
  CHECK(d.memory_used_bytes == int64_t{79} << 30);
  CHECK(d.ecc_uncorrected == 2);
  CHECK(d.ecc_corrected == INT64_MAX);
  CHECK(d.remapped_rows == 4);
  CHECK(d.remap_pending);
  CHECK_FALSE(d.remap_failed);
  REQUIRE(d.nvlink.size() == 1);
  CHECK(d.nvlink[0].link == 1);
  CHECK(d.nvlink[0].replays == 7);
  REQUIRE(d.processes.size() == 2);
  CHECK(d.processes[0].pid == 4711);
  CHECK(d.processes[1].memory_bytes == -1);
  // GPU 1 does not count memory errors.
  CHECK(reading.state.devices[1].ecc_uncorrected == -1);
}

TEST_CASE("NVML: how many multiprocessors work, where the GPU counts it") {
  const std::string file = (std::filesystem::current_path() / "nvml-state").string();
  std::ofstream(file) << "0 sm_active 182\n0 sm_occupancy 48\n";
  ::setenv("FAKE_NVML_STATE", file.c_str(), 1);
  const GpuReading reading = read_fake("");
  ::unsetenv("FAKE_NVML_STATE");
  REQUIRE(reading.state.devices.size() == 2);
  CHECK(reading.state.devices[0].sm_active_percent == 18.2);
  CHECK(reading.state.devices[0].sm_occupancy_percent == 4.8);
  CHECK(reading.state.devices[1].sm_active_percent == -1);
}

TEST_CASE("NVML: a lost GPU is named, the other one is read") {
  const GpuReading reading = read_fake("lost");
  CHECK(reading.status == EvidenceStatus::partial);
  CHECK(reading.reason == "GPU 1: GPU is lost");
  REQUIRE(reading.state.devices.size() == 2);
  CHECK(reading.state.devices[0].problem.empty());
  CHECK(reading.state.devices[1].problem == "GPU is lost");
  CHECK(reading.state.devices[1].temperature_c == -1);
}

TEST_CASE("NVML: no library, no driver, no permission, no GPU, another library") {
  CHECK(read_gpus("libno-such-nvml.so.1").status == EvidenceStatus::absent);
  CHECK(read_fake("no-driver").status == EvidenceStatus::absent);
  CHECK(read_fake("denied").status == EvidenceStatus::denied);
  CHECK(read_fake("denied").reason == "NVML cannot be used: Insufficient Permissions");
  CHECK(read_fake("empty").status == EvidenceStatus::absent);
  const GpuReading other = read_gpus("libc.so.6");
  CHECK(other.status == EvidenceStatus::failed);
  CHECK(other.reason == "libc.so.6 lacks the functions of NVML");
}
