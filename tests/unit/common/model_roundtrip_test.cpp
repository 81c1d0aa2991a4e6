#include "common/base/os/io.h"
#include "common/model/dump_manifest.h"
#include "common/model/run_manifest.h"
#include "common/model/stacks/stack_file.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun::model;
using nlohmann::json;

TEST_CASE("stacks survive writing and reading") {
  ProcessStacks p;
  p.host = "a";
  p.pid = 42;
  p.rank = 3;
  p.role = ProcessRole::rank;
  p.status = DumpStatus::partial;
  p.reason = "one thread did not stop";
  p.threads.push_back({.tid = 42, .comm = "python", .state = 'S', .main = true, .gil = GilState::holder});
  p.threads[0].frames.push_back({.kind = FrameKind::python, .func = "f", .file = "/x/t.py", .line = 3});
  p.threads[0].frames.push_back(
      {.func = "poll", .module = "libc.so.6", .pc = 0x7f00deadbeef, .offset = 0x1234});
  p.threads[0].interpreters = {2, 0};
  p.threads[0].frames[0].locals = {{.name = "x", .value = "3"}, {.name = "a", .value = "'b'"}};
  p.threads.push_back({.tid = 43, .python_name = "loader", .gil = GilState::dropping, .gc = true});
  p.interpreters = {{.id = 2, .gil_holder = 42, .gc = true}, {.id = 0}};
  const std::string text = to_json(p).dump();
  const auto q = process_stacks_from_json(json::parse(text));
  REQUIRE(q);
  CHECK(to_json(*q).dump() == text);
  REQUIRE(q->main_thread() != nullptr);
  CHECK(q->main_thread()->frames[1].pc == 0x7f00deadbeef);
  CHECK(q->main_thread()->frames[0].locals[1].value == "'b'");
  CHECK(q->main_thread()->interpreters == std::vector<int64_t>{2, 0});
  CHECK(q->threads[1].gil == GilState::dropping);
  CHECK(q->interpreters[0].gil_holder == 42);
}

TEST_CASE("a wrong schema or type is an error with the reason, never an exception") {
  CHECK_FALSE(process_stacks_from_json(json::parse(R"({"schema":"other/1"})")));
  CHECK_FALSE(process_stacks_from_json(json::parse(R"({"schema":"xpurun.stacks/1","pid":"x"})")));
  CHECK_FALSE(run_manifest_from_json(json::parse(R"([])")));
  CHECK_FALSE(dump_manifest_from_json(json::parse(R"({"schema":"xpurun.dump/1","ranks":3})")));
  REQUIRE(xpurun::base::write_file_atomic("cut.stacks.json", R"({"schema":"xpurun.stacks/1","thr)"));
  const auto cut = load_process_stacks("cut.stacks.json");
  REQUIRE_FALSE(cut);
  CHECK(cut.error().what.find("cut.stacks.json") != std::string::npos);
}

TEST_CASE("the run manifest survives writing and reading") {
  RunManifest r;
  r.id = "x";
  r.command = {"torchrun", "t.py"};
  r.env = {{"A", "b"}};
  r.processes.push_back({.pid = 7, .role = ProcessRole::rank, .rank = 0});
  r.processes[0].death = {
      .happened = true, .order = 1, .at_s = 2.5, .wait_status = xpurun::base::WaitStatus(9)};
  r.crashes.push_back({.pid = 7, .rank = 0, .signal = 11, .address = 0xdead});
  r.stalls.push_back({.n = 1, .at_s = 3});
  r.verdict.kind = VerdictKind::crash;
  r.verdict.ranks = RankSet{0};
  r.verdict.waiting.push_back({.ranks = RankSet{1, 2}, .what = "all_reduce"});
  const std::string text = to_json(r).dump();
  const auto back = run_manifest_from_json(json::parse(text));
  REQUIRE(back);
  CHECK(to_json(*back).dump() == text);
}

TEST_CASE("the stalls of a run of an earlier version are read from their old key") {
  RunManifest r;
  r.stalls.push_back({.n = 1, .at_s = 3});
  json j = json::parse(to_json(r).dump());
  j["incidents"] = j["stalls"];
  j.erase("stalls");
  const auto back = run_manifest_from_json(j);
  REQUIRE(back);
  REQUIRE(back->stalls.size() == 1);
  CHECK(back->stalls[0].at_s == 3);
  CHECK_FALSE(to_json(*back).contains("incidents"));
}

TEST_CASE("the dump manifest survives writing and reading") {
  DumpManifest d;
  d.n = 1;
  d.why = DumpReason::hang;
  d.processes.push_back({.pid = 7,
                         .rank = 0,
                         .role = ProcessRole::rank,
                         .status = DumpStatus::ok,
                         .file = "rank-0.stacks.json"});
  d.ranks.push_back({.rank = 0, .pid = 7, .still_s = 10});
  d.ranks.push_back({.rank = 1, .alive = false, .wait_status = xpurun::base::WaitStatus(9)});
  d.ranks.push_back({.rank = 2, .helper_life = HelperLife::stirring, .outside = OutsideWait::polling});
  d.ranks.back().helpers.push_back({.pid = 9,
                                    .name = "curl",
                                    .awaited = true,
                                    .life = HelperLife::working,
                                    .still_s = 3,
                                    .cpu_share = 0.5,
                                    .function = "fetch",
                                    .file = "data.py",
                                    .line = 5});
  d.idle_counts = true;
  const std::string text = to_json(d).dump();
  const auto back = dump_manifest_from_json(json::parse(text));
  REQUIRE(back);
  CHECK(back->ranks.at(2).outside == OutsideWait::polling);
  CHECK(back->ranks.at(2).helpers.at(0).life == HelperLife::working);
  CHECK(to_json(*back).dump() == text);
}
