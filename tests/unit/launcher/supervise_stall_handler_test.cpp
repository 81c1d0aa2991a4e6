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
  StallHandler stalls{{journal, dumps, job, options},
                      {.raised = [this] { return nodes("raised"); },
                       .escalated = [this] { return nodes("escalated"); },
                       .cleared = [this] { return nodes("cleared"); },
                       .lead = [this] { return nodes_lead; },
                       .judge_again = teller("judge again")},
                      {.request_report = teller("report"),
                       .still_s = [](base::Rank) { return 5.0; },
                       .close =
                           [this] {
                             tell("close");
                             return wants_report;
                           }}};

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
  s.stalls.raised(1);
  REQUIRE(s.all().size() == 1);
  CHECK(s.stalls.open());
  CHECK(s.all()[0].n == 1);
  CHECK(s.all()[0].at_s == doctest::Approx(12));
  CHECK(s.all()[0].since_s == doctest::Approx(7));
  REQUIRE(s.dump != nullptr);
  CHECK(s.journal.manifest().dumps.at(0).why == model::DumpReason::hang);
  s.end_dump();
  s.stalls.raised(0);
  CHECK(s.all().size() == 1);
  CHECK(s.told().empty());
}

TEST_CASE("a stall of several nodes is left to them") {
  StallScene s;
  s.nodes_take_over = true;
  s.stalls.raised(1);
  CHECK(s.told() == Told{"nodes: raised"});
  CHECK(s.dump == nullptr);
  CHECK(s.stalls.open());
  s.stalls.cleared();
  CHECK(s.told() == Told{"nodes: cleared"});
  s.stalls.cleared_everywhere();
  CHECK(s.told() == Told{"close", "report"});
}

TEST_CASE("no stall is raised while the job ends") {
  StallScene s;
  SUBCASE("the command has ended") {
    s.job.phase = JobPhase::settling;
  }
  SUBCASE("xpurun ends the job") {
    s.job.ended_by_us = true;
  }
  s.stalls.raised(1);
  CHECK(s.all().empty());
  CHECK(s.dump == nullptr);
}

TEST_CASE("a stall that lasts is judged again by its dump") {
  StallScene s;
  s.stalls.escalated();  // none is open
  s.stalls.raised(1);
  s.stalls.escalated();  // its dump has not ended
  CHECK(s.told().empty());
  s.end_dump();
  SUBCASE("by this node") {
    s.stalls.escalated();
    CHECK(s.told() == Told{"report"});
  }
  SUBCASE("by all nodes") {
    s.nodes_take_over = true;
    s.stalls.escalated();
    CHECK(s.told() == Told{"nodes: escalated"});
  }
  SUBCASE("unless xpurun is ending the job already") {
    s.job.ended_by_us = true;
    s.stalls.escalated();
    CHECK(s.told().empty());
  }
}

TEST_CASE("a stall that has passed is reported, if reports are wanted and the job goes on") {
  StallScene s;
  s.stalls.raised(1);
  SUBCASE("all is well") {
    s.stalls.cleared();
    CHECK(s.told() == Told{"close", "report"});
  }
  SUBCASE("nothing was open") {
    s.wants_report = false;
    s.stalls.cleared();
    CHECK(s.told() == Told{"close"});
  }
  SUBCASE("--no-report") {
    s.options.report = false;
    s.stalls.cleared();
    CHECK(s.told() == Told{"close"});
  }
  SUBCASE("the command has ended") {
    s.job.phase = JobPhase::settling;
    s.stalls.cleared();
    CHECK(s.told() == Told{"close"});
  }
}

TEST_CASE("new stacks and new evidence of an open stall are reported") {
  StallScene s;
  s.stalls.dumped(false);
  s.stalls.evidence_collected(false);
  CHECK(s.told().empty());
  s.stalls.dumped(true);
  CHECK(s.told() == Told{"report"});
  s.stalls.raised(1);
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
