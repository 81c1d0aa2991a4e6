// Scheduler events in the words of sysTrace.
#include "report/formats/systrace.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;

TEST_CASE("systrace: scheduler events") {
  model::RunManifest run;
  run.processes.push_back(
      {.pid = 110, .role = model::ProcessRole::rank, .rank = 3, .comm = "python3", .cmdline = {}});
  model::MachineHistory machine;
  CHECK(report::systrace_scheduler(run, machine).empty());
  machine.add({.values = {},
               .places = {},
               .missing = {},
               .intruders = {{.rank = 3,
                              .pid = 4711,
                              .command = "stress-ng",
                              .cpus = 1,
                              .watched_s = 2,
                              .ready_s = 0.76,
                              .cpu_s = 1.84}}},
              10'000'000'000);
  const auto j = nlohmann::json::parse(report::systrace_scheduler(run, machine));
  REQUIRE(j["os_events"].size() == 1);
  const auto& event = j["os_events"][0];
  CHECK(event["rank"] == 3);
  CHECK(event["pid"] == 110);
  CHECK(event["comm"] == "python3");
  CHECK(event["start_us"] == 8'000'000);
  CHECK(event["dur"] == 2'000'000);
  CHECK(event["rundelay"] == 760'000);
  CHECK(event["nxt_pid"] == 4711);
  CHECK(event["nxt_comm"] == "stress-ng");
  CHECK(event["nxt_dur"] == 1'840'000);
}
