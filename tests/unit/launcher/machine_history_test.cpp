#include "common/model/evidence/machine.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::model;

namespace {

constexpr int64_t kSecond = 1'000'000'000;

void read(MachineHistory& history, double seconds, MachineFact fact, double value) {
  history.add(
      {.values = {{.fact = fact, .object = "x", .value = value, .detail = {}}}, .places = {}, .missing = {}},
      static_cast<int64_t>(seconds * 1e9) + kSecond);
}

}  // namespace

TEST_CASE("machine history: a counter is a fact when it grows, between two readings") {
  MachineHistory history;
  read(history, 0, MachineFact::link_downed, 7);
  REQUIRE(history.series.size() == 1);
  const MachineSeries& s = history.series.front();
  CHECK(s.spells.empty());  // counted before the job
  read(history, 5, MachineFact::link_downed, 7);
  read(history, 10, MachineFact::link_downed, 9);
  read(history, 15, MachineFact::link_downed, 10);
  read(history, 20, MachineFact::link_downed, 10);
  read(history, 25, MachineFact::link_downed, 11);
  REQUIRE(s.spells.size() == 2);
  CHECK(s.spells[0].begin_wall_ns == 6 * kSecond);
  CHECK(s.spells[0].end_wall_ns == 16 * kSecond);
  CHECK(s.spells[0].amount == 3);
  CHECK(s.spells[1].amount == 1);
  CHECK(s.times == 3);
  read(history, 30, MachineFact::link_downed, 0);  // the driver was loaded again
  CHECK(s.spells.size() == 2);
}

TEST_CASE("machine history: the share of a time, and a level") {
  MachineHistory history;
  read(history, 0, MachineFact::memory_pressure, 1e9);
  read(history, 10, MachineFact::memory_pressure, 1e9 + 0.5e6);  // 5 %
  read(history, 20, MachineFact::memory_pressure, 1e9 + 2.5e6);  // 20 %
  read(history, 30, MachineFact::memory_pressure, 1e9 + 7.5e6);  // 50 %
  REQUIRE(history.series.size() == 1);
  REQUIRE(history.series[0].spells.size() == 1);
  CHECK(history.series[0].spells[0].begin_wall_ns == 11 * kSecond);
  CHECK(history.series[0].spells[0].amount == doctest::Approx(0.5));
  MachineHistory levels;
  read(levels, 0, MachineFact::space, 0.96);
  REQUIRE(levels.series[0].spells.size() == 1);  // at the first reading already
  read(levels, 5, MachineFact::space, 0.99);
  read(levels, 10, MachineFact::space, 0.5);
  CHECK(levels.series[0].spells.size() == 1);
  CHECK(levels.series[0].spells[0].amount == doctest::Approx(0.99));
}

TEST_CASE("machine history: a port that was down before the job is no fact") {
  MachineHistory history;
  read(history, 0, MachineFact::port_down, 1);
  read(history, 5, MachineFact::port_down, 1);
  CHECK(history.series[0].spells.empty());
  MachineHistory lost;
  read(lost, 0, MachineFact::port_down, 0);
  read(lost, 5, MachineFact::port_down, 1);
  CHECK(lost.series[0].spells.size() == 1);
}

TEST_CASE("machine history: a long run stays small") {
  MachineHistory history;
  for (int i = 0; i < 2000; ++i) {
    read(history, 10 * i, MachineFact::symbol_errors, i % 2 == 0 ? i : i - 1);
  }
  CHECK(history.series[0].spells.size() <= 24);
  CHECK(history.series[0].times == 999);
  double sum = 0;
  for (const MachineSpell& spell : history.series[0].spells) {
    sum += spell.amount;
  }
  CHECK(sum == 1998);
}

TEST_CASE("machine history: an intruder is one over several readings, whatever its process") {
  MachineHistory history;
  model::Intruder one{
      .rank = 1, .pid = 7, .command = "cc1plus", .cpus = 2, .watched_s = 2, .ready_s = 1, .cpu_s = 1};
  history.add({.values = {}, .places = {}, .missing = {}, .intruders = {one}}, 10'000'000'000);
  one.pid = 8;
  one.cpu_s = 3;
  history.add({.values = {}, .places = {}, .missing = {}, .intruders = {one}}, 20'000'000'000);
  one.command = "ld";
  one.cpu_s = 9;
  history.add({.values = {}, .places = {}, .missing = {}, .intruders = {one}}, 30'000'000'000);
  REQUIRE(history.intruders.size() == 2);
  CHECK(history.intruders[0].command == "ld");  // most CPU time first
  const model::Intruder& compiler = history.intruders[1];
  CHECK(compiler.pid == 8);
  CHECK(compiler.share() == doctest::Approx(0.5));
  CHECK(compiler.begin_wall_ns == 8'000'000'000);
  CHECK(compiler.end_wall_ns == 20'000'000'000);
  const auto read_back = model::machine_history_from_json(model::to_json(history));
  REQUIRE(read_back);
  REQUIRE(read_back->intruders.size() == 2);
  CHECK(read_back->intruders[1].command == "cc1plus");
  CHECK(read_back->intruders[1].ready_s == 2);
}

TEST_CASE("machine history: the clock was set back") {
  MachineHistory history;
  read(history, 100, MachineFact::link_downed, 1);
  read(history, 50, MachineFact::link_downed, 2);
  CHECK(history.readings == 1);
}

TEST_CASE("machine history: written and read again") {
  MachineReading reading{
      .values =
          {{.fact = MachineFact::storage_wait, .object = "/data", .value = 5, .detail = "d", .rank = 3}},
      .places = {{.rank = 3, .pid = 7, .cpus = "0-1", .runnable = 3}},
      .missing = {{.source = "/proc/pressure", .reason = "permission denied"}}};
  const auto line = machine_reading_from(line_of(reading));
  REQUIRE(line);
  CHECK(line->values.at(0).rank == 3);
  CHECK(line->missing == reading.missing);
  MachineHistory history;
  history.add(*line, kSecond);
  history.add(*line, 2 * kSecond);
  CHECK(history.missing.size() == 1);  // said once
  const auto back = machine_history_from_json(nlohmann::json::parse(to_json(history).dump()));
  REQUIRE(back);
  CHECK(back->series.at(0).rank == 3);
  CHECK(back->places.at(0).crowded == 2);
  CHECK(back->readings == 2);
  CHECK_FALSE(machine_reading_from("{"));
  CHECK_FALSE(machine_reading_from("[]"));
}

TEST_CASE("machine history: the kernel's lists of CPUs") {
  CHECK(cpus_in("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(cpus_in("").empty());
  CHECK(cpus_in("9999999-99999999,x,-").empty());
}
