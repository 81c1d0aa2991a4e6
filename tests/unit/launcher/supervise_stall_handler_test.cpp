#include "launcher/supervise/handlers/stall_handler.h"
#include "tests/unit/launcher/dump_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::Told;

namespace {

struct StallScene : test::DumpScene {
  bool nodes_take_over = false;
  bool nodes_lead = false;
  bool wants_report = true;
  bool interrupted = false;
  StallHandler stalls{
      {journal, dumps, job, options},
      {.raised = [this] { return nodes("raised"); },
       .changed = [this](bool escalated) { return nodes(escalated ? "escalated" : "changed"); },
       .cleared = [this] { return nodes("cleared"); },
       .lead = [this] { return nodes_lead; },
       .judge_again = teller("judge again")},
      {.request_report = teller("report"),
       .still_s = [](base::Rank) { return 5.0; },
       .close =
           [this](model::Stall& stall) {
             tell(fmt::format("close {}", stall.n));
             stall.cleared_s = now_s();
             return wants_report;
           },
       .was_interrupted = [this] { return interrupted; }}};

  void change(StallChange change, const model::RankSet& ranks = {1}, int stall = 1) {
    stalls.changed({.change = change, .stall = stall, .ranks = ranks, .longest = ranks.lowest()});
  }
  void raise(const model::RankSet& ranks = {1}, int stall = 1) { change(StallChange::raised, ranks, stall); }

  bool nodes(const std::string& what) {
    if (nodes_take_over) {
      tell("nodes: " + what);
    }
    return nodes_take_over;
  }
  std::vector<model::Stall>& all() { return journal.manifest().stalls; }
};

}  // namespace

TEST_CASE("a stall is recorded and asks for a dump, once") {
  StallScene s;
  CHECK_FALSE(s.stalls.open());
  s.run_for(12);
  s.raise();
  REQUIRE(s.all().size() == 1);
  CHECK(s.stalls.open());
  CHECK(s.all()[0].n == 1);
  CHECK(s.all()[0].at_s == doctest::Approx(12));
  CHECK(s.all()[0].since_s == doctest::Approx(7));
  REQUIRE(s.dump != nullptr);
  CHECK(s.journal.manifest().dumps.at(0).why == model::DumpReason::hang);
  CHECK(s.all()[0].ranks == model::RankSet{1});
  CHECK(s.all()[0].pending);
  s.end_dump();
  CHECK(s.all()[0].dump == "dumps/1-hang");
  CHECK(s.told().empty());
}

TEST_CASE("a stall of several nodes is left to them") {
  StallScene s;
  s.nodes_take_over = true;
  s.raise();
  CHECK(s.told() == Told{"nodes: raised"});
  CHECK(s.dump == nullptr);
  CHECK(s.stalls.open());
  s.change(StallChange::cleared, {});
  CHECK(s.told() == Told{"nodes: cleared"});
  s.stalls.cleared_everywhere();
  CHECK(s.told() == Told{"close 1", "report"});
}

TEST_CASE("each stall has its own record and its own dump") {
  StallScene s;
  s.raise({2}, 1);
  s.raise({0, 1}, 2);
  REQUIRE(s.all().size() == 2);
  CHECK(s.all()[1].ranks == model::RankSet{0, 1});
  s.end_dump();
  CHECK(s.all()[0].dump == "dumps/1-hang");
  CHECK(s.all()[1].dump.empty());
  s.end_dump();
  CHECK(s.all()[1].dump == "dumps/2-hang");
  SUBCASE("the end of one leaves the other one open") {
    s.change(StallChange::cleared, {}, 2);
    CHECK(s.told() == Told{"close 2", "report"});
    CHECK(s.stalls.open());
    CHECK(s.journal.open_stall()->n == 1);
  }
  SUBCASE("a stall whose ranks belong to another one is no record of its own") {
    s.change(StallChange::merged, {}, 1);
    CHECK(s.told().empty());
    REQUIRE(s.all().size() == 1);
    CHECK(s.all()[0].n == 2);
    s.raise({5}, 3);
    CHECK(s.all()[1].n == 3);
  }
}

TEST_CASE(
    "a stall whose ranks have changed is dumped again, one whose surroundings have changed is judged again") {
  StallScene s;
  s.raise();
  s.end_dump();
  s.all()[0].pending = false;
  s.run_for(5);
  SUBCASE("ranks have joined") {
    s.change(StallChange::joined, {1, 2});
    CHECK(s.all()[0].ranks == model::RankSet{1, 2});
    CHECK(s.told().empty());
    s.end_dump();
    CHECK(s.all()[0].dump == "dumps/2-hang");
  }
  SUBCASE("another rank has ended") {
    s.change(StallChange::judge);
    CHECK(s.told() == Told{"report"});
    CHECK_FALSE(model::load_dump_manifest("run/dumps/1-hang/dump.json")->escalated);
  }
  SUBCASE("all nodes judge together") {
    s.nodes_take_over = true;
    s.change(StallChange::judge);
    CHECK(s.told() == Told{"nodes: changed"});
  }
  CHECK(s.all()[0].pending);
  CHECK(s.all()[0].asked_s == doctest::Approx(5).epsilon(0.01));
}

TEST_CASE("no stall is raised while the job ends") {
  StallScene s;
  SUBCASE("the command has ended") {
    s.job.phase = JobPhase::settling;
  }
  SUBCASE("xpurun ends the job") {
    s.job.ended_by_us = true;
  }
  s.raise();
  CHECK(s.all().empty());
  CHECK(s.dump == nullptr);
}

TEST_CASE("a stall that lasts is judged again by its dump") {
  StallScene s;
  s.change(StallChange::escalated);  // none is open
  s.raise();
  s.change(StallChange::escalated);  // its dump has not ended
  CHECK(s.told().empty());
  s.end_dump();
  SUBCASE("by this node") {
    s.change(StallChange::escalated);
    CHECK(s.told() == Told{"report"});
  }
  SUBCASE("by all nodes") {
    s.nodes_take_over = true;
    s.change(StallChange::escalated);
    CHECK(s.told() == Told{"nodes: escalated"});
  }
  SUBCASE("unless xpurun is ending the job already") {
    s.job.ended_by_us = true;
    s.change(StallChange::escalated);
    CHECK(s.told().empty());
  }
}

TEST_CASE("a stall that has passed is reported, if reports are wanted and the job goes on") {
  StallScene s;
  s.raise();
  SUBCASE("all is well") {
    s.change(StallChange::cleared, {});
    CHECK(s.told() == Told{"close 1", "report"});
  }
  SUBCASE("no report is wanted") {
    s.wants_report = false;
    s.change(StallChange::cleared, {});
    CHECK(s.told() == Told{"close 1"});
  }
  SUBCASE("--no-report") {
    s.options.report = false;
    s.change(StallChange::cleared, {});
    CHECK(s.told() == Told{"close 1"});
  }
  SUBCASE("the command has ended") {
    s.job.phase = JobPhase::settling;
    s.change(StallChange::cleared, {});
    CHECK(s.told() == Told{"close 1"});
  }
}

TEST_CASE("new stacks and new evidence of an open stall are reported") {
  StallScene s;
  s.stalls.dumped(false);
  s.stalls.evidence_collected(false);
  CHECK(s.told().empty());
  s.stalls.dumped(true);
  CHECK(s.told() == Told{"report"});
  s.raise();
  s.stalls.evidence_collected(true);  // the dump under way reports when it ends
  CHECK(s.told().empty());
  s.end_dump();
  s.stalls.dumped(false);  // of a death during the stall
  s.stalls.evidence_collected(false);
  CHECK(s.told() == Told{"report", "report"});
  s.nodes_lead = true;
  s.stalls.report();
  CHECK(s.told() == Told{"judge again"});
  s.job.phase = JobPhase::settling;
  s.stalls.report();
  CHECK(s.told().empty());
}

TEST_CASE("after a signal, a hang that was reported is not judged by the places of the signal's handlers") {
  StallScene s;
  s.raise({0, 1});
  s.end_dump();
  s.interrupted = true;
  s.raise({2}, 2);  // no hang is known yet: the stacks are all that the last verdict has
  CHECK(s.all().size() == 2);
  s.end_dump();
  s.all()[0].verdict.kind = model::VerdictKind::hang;
  s.raise({3}, 3);
  s.change(StallChange::joined, {0});
  s.change(StallChange::escalated, {0});
  s.change(StallChange::merged, {0});
  REQUIRE(s.all().size() == 2);
  CHECK(s.all()[0].ranks == model::RankSet{0, 1});
  CHECK(s.all()[0].dump == "dumps/1-hang");
  CHECK(s.journal.manifest().dumps.size() == 2);
}

TEST_CASE("a stall that was found early is dumped again when the timeout has passed") {
  StallScene s;
  s.stalls.changed({.change = StallChange::raised, .stall = 1, .ranks = {1}, .longest = 1, .early = true});
  s.end_dump();
  REQUIRE(s.all().size() == 1);
  CHECK(s.all()[0].early);
  s.run_for(100);
  s.change(StallChange::due, {1});
  CHECK_FALSE(s.all()[0].early);
  CHECK(s.all()[0].at_s > 99);
  s.end_dump();
  CHECK(s.all()[0].dump == "dumps/2-hang");
}
