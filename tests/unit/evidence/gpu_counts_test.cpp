// What NVML counts, by the stand-in for NVML: each fault is told with its GPU and link, and its words name
// the rank; healthy GPUs give no finding.
#include "common/base/os/io.h"
#include "launcher/evidence/clock_helper.h"
#include "report/run/findings.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr int64_t kBegan = 1'700'000'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

// A run on eight GPUs, whose ranks have the numbers of their GPUs, read as the helper reads.
class WatchedGpus {
 public:
  explicit WatchedGpus(const std::string& first = "") {
    set(first);
    ::setenv("FAKE_NVML_STATE", kFile, 1);
    const char* library = std::getenv("XPURUN_FAKE_NVML");
    REQUIRE(library != nullptr);
    auto speeds = GpuSpeeds::open(library);
    auto counts = GpuCountReader::open(library);
    REQUIRE(speeds);
    REQUIRE(counts);
    lines_.emplace(std::move(*speeds), std::move(*counts));
    for (int rank = 0; rank < 8; ++rank) {
      machine_.places.push_back(
          {.rank = rank, .pid = 100 + rank, .gpu = fmt::format("0000:{:x}b:00.0", rank + 3)});
    }
    read();
  }
  ~WatchedGpus() { ::unsetenv("FAKE_NVML_STATE"); }
  WatchedGpus(const WatchedGpus&) = delete;
  WatchedGpus& operator=(const WatchedGpus&) = delete;

  void set(const std::string& state) { REQUIRE(base::write_file_atomic(kFile, "0 gpus 8\n" + state)); }

  void read() {
    now_ns_ += 5 * kSecond;
    const std::string text = lines_->next(true);
    for (const std::string_view line : base::split(text, '\n')) {
      add_line(health_, line, now_ns_, 5);
    }
  }

  void read(int times) {
    for (int i = 0; i < times; ++i) {
      read();
    }
  }

  const model::GpuHealth& health() const { return health_; }

  std::vector<report::Finding> findings() const {
    report::RunReport report;
    report.run.started_wall_ns = kBegan;
    report.run.host = "a";
    report.machines.push_back(machine_);
    // As from the file.
    const auto kept = model::gpu_health_from_json(nlohmann::json::parse(to_json(health_).dump()));
    REQUIRE(kept);
    add_gpu_facts(report.machines.front(), *kept);
    report.gpu_health.push_back(*kept);
    auto out = report::find_findings(report);
    std::erase_if(out, [](const report::Finding& f) {
      return !f.id.starts_with("gpu.") && !f.id.starts_with("machine.");
    });
    return out;
  }

 private:
  static constexpr const char* kFile = "nvml-state";

  std::optional<WatchLines> lines_;
  model::GpuHealth health_;
  model::MachineHistory machine_;
  int64_t now_ns_ = kBegan;
};

}  // namespace

TEST_CASE("GPU counts: healthy GPUs have no findings") {
  WatchedGpus gpus("3 ecc_corrected_ever 17\n3 rows_corrected 2\n2 link.3.replays 40\n");
  gpus.read(40);
  CHECK(gpus.findings().empty());
  REQUIRE(gpus.health().inventory.units.size() == 8);
  const model::GpuUnit& unit = gpus.health().inventory.units[3];
  CHECK(unit.pci == "0000:6b:00.0");
  CHECK(unit.serial == "165300003");
  CHECK(unit.nvlinks == 18);
  CHECK(unit.power_limit_w == 700);
  CHECK(unit.rows_corrected == 2);
  CHECK(unit.ecc_corrected_ever == 17);
  CHECK(gpus.health().inventory.paths.size() == 28);
  CHECK(gpus.health().inventory.paths.front().path == "NV18");
}

TEST_CASE("GPU counts: each fault names its GPU, link and rank") {
  struct Fault {
    const char* state;
    const char* id;
    const char* title;
  };
  const Fault faults[] = {
      {"5 link.4.recoveries 2\n", "machine.nvlink_recoveries",
       "GPU 5 NVLink 4 (rank 5), recoveries of the link: 2"},
      {"5 link.4.replays 3\n", "machine.nvlink_replays",
       "GPU 5 NVLink 4 (rank 5), packets that were sent again: 3"},
      {"0 link.17.crc 900\n", "machine.nvlink_crc", "GPU 0 NVLink 17 (rank 0), checksum errors: 900"},
      {"2 link.9.up 0\n", "machine.nvlink_down", "GPU 2 NVLink 9 (rank 2) is down"},
      {"1 pcie_replays 500\n", "machine.gpu_pcie_replays",
       "GPU 1 (rank 1), PCIe packets that were sent again: 497"},
      {"1 pcie_width 4\n", "machine.pcie_narrow",
       "GPU 1 (rank 1) uses fewer PCIe lanes than it could (x4 of x16)"},
      {"6 pcie_generation 1\n", "machine.pcie_slow",
       "GPU 6 (rank 6) uses a lower PCIe speed than it could (generation 1 of 5)"},
      {"7 ecc_corrected 12\n", "machine.ecc_corrected", "GPU 7 (rank 7), corrected memory errors: 12"},
      {"7 ecc_uncorrected 1\n", "machine.ecc_uncorrected", "GPU 7 (rank 7), uncorrected memory errors: 1"},
      {"3 rows_uncorrected 1\n", "machine.rows_remapped",
       "GPU 3 (rank 3), damaged memory rows that were replaced: 1"},
      {"3 remap_pending 1\n", "machine.remap_pending",
       "GPU 3 (rank 3) has damaged memory that waits for a reset to be replaced"},
      {"3 remap_failed 1\n", "machine.remap_failed",
       "GPU 3 (rank 3) has damaged memory and no spare rows left"},
      {"4 reasons 76\n", "machine.gpu_slowed",
       "GPU 4 (rank 4) lowered its clock (hardware_slowdown, hardware_thermal)"},
      {"4 xid 79\n", "machine.xid",
       "the driver reported Xid 79 (GPU has fallen off the bus) of GPU 4 (rank 4)"},
      {"6 lost 1\n", "machine.gpu_lost", "GPU 6 (rank 6) does not answer (GPU is lost)"},
      {"2 power_limit 500000\n", "gpu.power_limit",
       "GPU 2 (rank 2) has a power limit of 500 W, the other GPUs have 700 W"},
      {"2 sm_clock_max 1410\n", "gpu.clock_limit",
       "GPU 2 (rank 2) has a highest clock of 1410 MHz, the other GPUs have 1980 MHz"},
      {"0 pcie_width 8\n0 pcie_width_max 8\n", "gpu.pcie_width",
       "GPU 0 (rank 0) has 8 PCIe lanes, the other GPUs have 16"},
      {"0 pcie_generation 4\n0 pcie_generation_max 4\n", "gpu.pcie_generation",
       "GPU 0 (rank 0) has a slot of PCIe generation 4, the other GPUs have 5"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.state);
    WatchedGpus gpus;
    gpus.read(2);
    gpus.set(fault.state);
    gpus.read(3);
    const auto found = gpus.findings();
    REQUIRE(found.size() == 1);
    CHECK(found[0].id == fault.id);
    CHECK(found[0].title == fault.title);
    CHECK(!found[0].next.empty());
  }
}

TEST_CASE("GPU counts: a link that recovers again and again is a prediction") {
  WatchedGpus gpus;
  for (int i = 1; i <= 4; ++i) {
    gpus.set(fmt::format("1 link.2.recoveries {}\n", i));
    gpus.read(2);
  }
  const auto found = gpus.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].title == "GPU 1 NVLink 2 (rank 1), recoveries of the link: 4, again and again");
  CHECK(found[0].next.find("before the link fails") != std::string::npos);
}

TEST_CASE("GPU counts: what was broken before the run began") {
  WatchedGpus gpus("1 ecc_uncorrected 2\n2 remap_pending 1\n3 link.0.up 0\n");
  gpus.read(3);
  std::vector<std::string> titles;
  for (const auto& f : gpus.findings()) {
    titles.push_back(f.title);
  }
  std::sort(titles.begin(), titles.end());
  CHECK(titles ==
        std::vector<std::string>{"GPU 2 (rank 2) has damaged memory that waits for a reset to be replaced",
                                 "GPU 3 NVLink 0 (rank 3) is down",
                                 "before the run, GPU 1 (rank 1), uncorrected memory errors: 2"});
}

TEST_CASE("GPU counts: one GPU at a lower clock than the others for minutes") {
  WatchedGpus gpus("5 sm_clock 1200\n");
  gpus.read(30);
  const auto found = gpus.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].title == "GPU 5 (rank 5) ran at 1200 MHz on average, the other GPUs at 1980 MHz");
}

TEST_CASE("GPU counts: a link that all GPUs lack is no fault, nor is a slow PCIe link without work") {
  std::string state;
  for (int gpu = 0; gpu < 8; ++gpu) {
    for (int link = 12; link < 18; ++link) {
      state += fmt::format("{} link.{}.up 0\n", gpu, link);
    }
    state += fmt::format("{} pcie_generation 1\n{} utilization 0\n", gpu, gpu);
  }
  WatchedGpus gpus(state);
  gpus.read(3);
  CHECK(gpus.findings().empty());
}

TEST_CASE("GPU counts: a power limit that all GPUs have is worth a note") {
  std::string state;
  for (int gpu = 0; gpu < 8; ++gpu) {
    state += fmt::format("{} power_limit 500000\n", gpu);
  }
  WatchedGpus gpus(state);
  const auto found = gpus.findings();
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == report::Severity::note);
  CHECK(found[0].title == "the power limit of all GPUs is below their default: 500 W instead of 700 W");
}
