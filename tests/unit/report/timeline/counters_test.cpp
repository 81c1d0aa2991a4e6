// Counters beside the slices: load of the process, queue and clocks of the GPU.
#include "report/timeline/counters/counters.h"

#include "common/base/os/io.h"
#include "common/model/evidence/machine.h"
#include "report/timeline/counters/host_counters.h"
#include "report/timeline/timeline.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/timeline/samples.h"

#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;

namespace {

model::SpanFile load_file() {
  model::SpanFile file;
  file.header = {.rank = 0, .host = "node0", .mono_ns = 0, .wall_ns = kWall};
  file.loads = {
      {.at_ns = 1'000'000'000, .cpu_ns = 0, .run_delay_ns = 0, .major_faults = 2},
      {.at_ns = 2'000'000'000, .cpu_ns = 1'500'000'000, .run_delay_ns = 250'000'000, .major_faults = 2},
      {.at_ns = 2'000'000'000, .cpu_ns = 9},  // not later: left out
      {.at_ns = 4'000'000'000, .cpu_ns = 2'500'000'000, .run_delay_ns = -1, .major_faults = 12}};
  return file;
}

const Counter* counter_of(const Activity& activity, std::string_view name) {
  for (const Counter& counter : activity.counters) {
    if (counter.name == name) {
      return &counter;
    }
  }
  return nullptr;
}

}  // namespace

TEST_CASE("load: rates from one sample to the next") {
  Activity activity;
  model::SpanFile file = load_file();
  file.loads.erase(file.loads.begin() + 2);
  add_load(activity, file);
  const Counter* cpu = counter_of(activity, "CPU time");
  REQUIRE(cpu != nullptr);
  CHECK(cpu->unit == "cores");
  REQUIRE(cpu->samples.size() == 3);
  CHECK(cpu->samples[0].wall_ns == kWall + 1'000'000'000);
  CHECK(cpu->samples[0].value == doctest::Approx(1.5));
  CHECK(cpu->samples[1].value == doctest::Approx(0.5));
  CHECK(cpu->samples[2].wall_ns == kWall + 4'000'000'000);
  const Counter* delay = counter_of(activity, "ready without a CPU");
  REQUIRE(delay != nullptr);
  REQUIRE(delay->samples.size() == 1);  // the second one is unknown
  CHECK(delay->samples[0].value == doctest::Approx(0.25));
  const Counter* faults = counter_of(activity, "major page faults");
  REQUIRE(faults != nullptr);
  CHECK(faults->samples[1].value == doctest::Approx(5));
}

TEST_CASE("intruders: who had the CPUs of the rank, from first to last seen") {
  model::MachineHistory history;
  const model::Intruder hog{
      .rank = 1, .pid = 4711, .command = "stress-ng", .cpus = 1, .watched_s = 2, .ready_s = 1, .cpu_s = 1.8};
  for (int i = 1; i < 4; ++i) {
    history.add({.values = {}, .places = {}, .missing = {}, .intruders = {hog}}, kWall + i * 5'000'000'000);
  }
  const std::string file = "intruders-machine.json";
  REQUIRE(base::write_file_atomic(file, model::to_json(history).dump()));
  Activity own;
  own.rank = 1;
  add_intruders(own, file);
  const Counter* taken = counter_of(own, "CPUs taken by stress-ng (4711)");
  REQUIRE(taken != nullptr);
  REQUIRE(taken->samples.size() == 2);
  CHECK(taken->samples[0].wall_ns == kWall + 3'000'000'000);
  CHECK(taken->samples[0].value == doctest::Approx(0.9));
  CHECK(taken->samples[1].wall_ns == kWall + 15'000'000'000);
  CHECK(taken->samples[1].value == 0);
  Activity other;
  other.rank = 0;
  add_intruders(other, file);
  add_intruders(own, "no-such-machine.json");
  CHECK(other.counters.empty());
}

TEST_CASE("host counters: use and faults, beside the first rank of the host") {
  model::MachineHistory history;
  const std::vector<model::RankPlace> places = {{.rank = 2, .cpus = "0"}, {.rank = 3, .cpus = "1"}};
  for (int i = 0; i < 3; ++i) {
    history.add({.values = {{.fact = model::MachineFact::link_recoveries,
                             .object = "mlx5_0/1",
                             .value = 5.0 + i,
                             .detail = {}}},
                 .places = places,
                 .missing = {},
                 .use = {{.use = model::HostUse::disk_read, .object = "nvme0n1", .value = 2e6}}},
                kWall + i * 5'000'000'000);
  }
  REQUIRE(base::write_file_atomic("machine.json", model::to_json(history).dump()));
  Activity first;
  first.rank = 2;
  add_host_counters(first, ".");
  const Counter* recoveries = counter_of(first, "mlx5_0/1: link recoveries");
  REQUIRE(recoveries != nullptr);
  CHECK(recoveries->unit == "events");
  REQUIRE(recoveries->samples.size() == 2);
  CHECK(recoveries->samples[0].wall_ns == kWall);
  CHECK(recoveries->samples[0].value == 0);
  CHECK(recoveries->samples[1].wall_ns == kWall + 10'000'000'000);
  CHECK(recoveries->samples[1].value == 2);
  const Counter* read = counter_of(first, "nvme0n1: read");
  REQUIRE(read != nullptr);
  CHECK(read->unit == "MB/s");
  REQUIRE_FALSE(read->samples.empty());
  CHECK(read->samples[0].value == doctest::Approx(2));
  Activity second;
  second.rank = 3;
  add_host_counters(second, ".");
  add_host_counters(first, "no-such-run");
  CHECK(second.counters.empty());
}

TEST_CASE("load: nothing comes from equal times, negative rates or a single sample") {
  Activity activity;
  model::SpanFile file = load_file();
  file.loads = {file.loads[1], file.loads[2]};
  add_load(activity, file);
  file.loads.resize(1);
  add_load(activity, file);
  file.loads = {{.at_ns = 1, .cpu_ns = 500}, {.at_ns = 2'000'000'000, .cpu_ns = 0}};
  add_load(activity, file);
  CHECK(counter_of(activity, "CPU time") == nullptr);
}

TEST_CASE("the queue of a trace, and of no other file, in both formats") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-counters-test-");
  const std::string trace = dir.path() + "/run/traces/1";
  put_file(dir.path() + "/run/ranks/0/events-1.xev", sample_events({.rank = 0}));
  TimelineOptions options;
  options.out = dir.path() + "/out";
  const auto text_of = [&] {
    const auto made = make_timeline({dir.path() + "/run"}, options);
    REQUIRE(made);
    return testing::PerfettoText::of(*base::read_file(options.out));
  };
  CHECK(text_of().find("counter") == std::string::npos);
  put_file(trace + "/rank-0.xev", sample_events({.rank = 0}));
  const std::string text = text_of();
  CHECK(text.find("track rank 0, node0, H200 / GPU queue (trace)\n") != std::string::npos);
  // The copy is launched 1 us before its begin at 1,040 us.
  CHECK(text.find("1795230915001039000 counter rank 0, node0, H200 / GPU queue (trace): 1\n") !=
        std::string::npos);
  CHECK(text.find("1795230915001040000 counter rank 0, node0, H200 / GPU queue (trace): 0\n") !=
        std::string::npos);
  options.only = {Category::matmul};
  CHECK(text_of().find("counter") == std::string::npos);
  options.only.clear();
  put_file(trace + "/trace.json", R"({"schema": "xpurun.trace/1", "kinds": ["matmul", "host"]})");
  CHECK(text_of().find("counter") == std::string::npos);  // not all work
  put_file(trace + "/trace.json",
           R"({"schema": "xpurun.trace/1", "kinds": ["matmul", "collective", "memory"]})");
  options.format = TimelineFormat::chrome;
  options.out = dir.path() + "/json";
  REQUIRE(make_timeline({dir.path() + "/run"}, options));
  const auto json = nlohmann::json::parse(*base::read_file(options.out + "/rank-0.json"));
  size_t samples = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "C") {
      ++samples;
      CHECK(event["name"] == "GPU queue (trace)");
      CHECK(event["args"]["launches"].is_number());
    }
  }
  CHECK(samples >= 10);
}

TEST_CASE("clocks of a capture hold over its time") {
  const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-counters-test-");
  const std::string path = dir.path() + "/clocks.json";
  model::EventFile file = *model::parse_event_file(sample_events({.rank = 0}));
  file.header.gpu_uuid = "GPU-1";
  Activity activity;
  add_clocks(activity, file, path);  // there is none
  CHECK(activity.counters.empty());
  put_file(path, R"({"schema": "xpurun.gpu-clocks/1", "interval_s": 0.01, "gpus": [
      {"uuid": "GPU-0", "samples": 9, "sm_median_mhz": 100, "power_w": 1},
      {"uuid": "GPU-1", "samples": 9, "sm_median_mhz": 1980, "power_w": 640.5}]})");
  add_clocks(activity, file, path);
  const Counter* clock = counter_of(activity, "SM clock (median)");
  REQUIRE(clock != nullptr);
  REQUIRE(clock->samples.size() == 2);
  CHECK(clock->samples[0].value == 1980);
  CHECK(clock->samples[0].wall_ns == kWall + 1'000'000);
  CHECK(clock->samples[1].wall_ns == kWall + 2'150'000);
  const Counter* power = counter_of(activity, "power (median)");
  REQUIRE(power != nullptr);
  CHECK(power->samples[1].value == 640.5);
  CHECK(counter_of(activity, "GPU utilization (median)") == nullptr);
}
