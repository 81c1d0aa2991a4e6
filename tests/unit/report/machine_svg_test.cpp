// The picture of the section "Machine".
#include "report/render/machine/machine_svg.h"

#include "report/render/machine/gpu_svg.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::HostUse;

namespace {

constexpr int64_t kPlotBegin = 1'700'000'000'000'000'000;

model::RunManifest hundred_seconds() {
  model::RunManifest run;
  run.started_wall_ns = kPlotBegin;
  run.elapsed_s = 100;
  return run;
}

size_t count_of(const std::string& text, std::string_view part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++out;
  }
  return out;
}

}  // namespace

TEST_CASE("machine picture: a row for each resource, with gaps where nothing was read") {
  const RunAxis axis(hundred_seconds());
  const StepTimes steps(std::nullopt, axis);
  model::HostUseHistory use{.begin_wall_ns = kPlotBegin, .bin_s = 10, .tracks = {}};
  use.tracks = {{.use = HostUse::disk_written, .object = "sda", .values = {1, 2}},
                {.use = HostUse::disk_read, .object = "sda", .values = {0, 2048}},
                {.use = HostUse::cpu, .object = {}, .values = {0.5, -1, 1}},
                {.use = HostUse::net_received, .object = "<b>", .values = {5}}};
  const std::string plot =
      machine_plot(use, {{.from_s = 20, .to_s = 40, .words = "<disk> is full"}}, axis, steps);
  CHECK(count_of(plot, "class=\"row\"") == 3);
  CHECK(count_of(plot, "class=\"second\"") == 1);
  CHECK(plot.find("2.0 KiB/s") != std::string::npos);
  CHECK(plot.find("at most 100 %") != std::string::npos);
  // 760 units are 100 s. Two areas of 10 s, half and full height.
  CHECK(plot.find("M150.0 44.0V22.0H226.0V44.0zM302.0 44.0V0.0H378.0V44.0z") != std::string::npos);
  CHECK(plot.find("&lt;disk&gt; is full") != std::string::npos);
  CHECK(plot.find("<b>") == std::string::npos);
  CHECK(count_of(plot, "class=\"band\" x=\"302.0\"") == 1);
}

TEST_CASE("machine picture: nothing to draw, and damaged values") {
  const RunAxis axis(hundred_seconds());
  const StepTimes steps(std::nullopt, axis);
  CHECK(machine_plot({}, {}, axis, steps).empty());
  model::HostUseHistory use{.begin_wall_ns = kPlotBegin, .bin_s = 10, .tracks = {}};
  use.tracks = {{.use = HostUse::net_received, .object = "e", .values = {1e300, -5}}};
  CHECK(machine_plot(use, {}, axis, steps).find("NaN") == std::string::npos);
  CHECK(machine_plot(use, {}, RunAxis(model::RunManifest()), steps).empty());
  use.bin_s = 0;
  CHECK(machine_plot(use, {}, axis, steps).empty());
}

TEST_CASE("GPU picture: a row for each GPU in the same scale, with its own bands") {
  const RunAxis axis(hundred_seconds());
  const StepTimes steps(std::nullopt, axis);
  model::MachineHistory machine;
  CHECK(gpu_plot(machine, {}, axis, steps).empty());
  machine.use = {.begin_wall_ns = kPlotBegin, .bin_s = 50, .tracks = {}};
  machine.use.tracks = {{.use = HostUse::cpu, .object = {}, .values = {1, 1}},
                        {.use = HostUse::gpu_clock, .object = "GPU 1", .values = {1980, 990}},
                        {.use = HostUse::gpu_clock, .object = "GPU 0", .values = {1980, -1}},
                        {.use = HostUse::gpu_load, .object = "GPU 0", .values = {0.5, 1}}};
  const std::vector<MachineBand> bands = {{.from_s = 50, .to_s = 60, .words = "hot", .gpu = "GPU 1"},
                                          {.from_s = 0, .to_s = 5, .words = "<disk>"}};
  const std::string plot = gpu_plot(machine, bands, axis, steps);
  CHECK(count_of(plot, "class=\"row\"") == 8);
  CHECK(count_of(plot, "class=\"use\"") == 3);
  CHECK(plot.find(">GPU 0<") < plot.find(">GPU 1<"));
  CHECK(plot.find("GPU 1, SM clock: 990 MHz to 1,980 MHz") != std::string::npos);
  CHECK(plot.find("GPU 1, Power: not known") != std::string::npos);
  // The second row begins at 64 units; half of the highest clock of all GPUs is in its middle.
  CHECK(plot.find("V64.0H410.8V81.0H519.0V98.0z") != std::string::npos);
  // In each of the four pictures of GPU 1; the band of the disk is elsewhere.
  CHECK(count_of(plot, "class=\"band\"") == 4);
  CHECK(plot.find("disk") == std::string::npos);
  // The picture of the host has no rows for GPUs, and no bands of theirs.
  const std::string host = machine_plot(machine.use, bands, axis, steps);
  CHECK(count_of(host, "class=\"row\"") == 1);
  CHECK(count_of(host, "class=\"band\"") == 1);
}
