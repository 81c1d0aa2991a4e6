#include "launcher/supervise/handlers/death_handler.h"
#include "tests/unit/launcher/dump_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

struct DeathScene : test::DumpScene {
  DeathHandler deaths{
      {table, dumps, job},
      {.ended = [this](base::Pid pid,
                       base::WaitStatus) { tell(fmt::format("end {}", pid - test::kCommand)); },
       .failed =
           [this](const TrackedProcess& p, base::WaitStatus status) {
             tell(fmt::format("failed {} {}", p.record.rank, status.text()));
           },
       .rank_failed = [this](base::Rank rank) { tell(fmt::format("rank {} failed", rank)); }}};

  void die(base::Pid pid, bool failed = true) {
    const TrackedProcess* p = table.find(pid);
    REQUIRE(p != nullptr);
    deaths.process_died(*p, base::WaitStatus(9), failed);
  }
};

}  // namespace

TEST_CASE("the first failure of a rank asks for a dump") {
  DeathScene s;
  s.die(kRank1);
  CHECK(s.told() == Told{"end 2", "failed 1 killed by SIGKILL", "rank 1 failed"});
  REQUIRE(s.dump != nullptr);
  CHECK(s.journal.manifest().dumps.at(0).why == model::DumpReason::death);
  s.end_dump();
  s.die(kRank0);  // a moment later
  CHECK(s.told() == Told{"end 1", "failed 0 killed by SIGKILL", "rank 0 failed"});
  CHECK(s.journal.manifest().dumps.size() == 1);
}

TEST_CASE("a later failure gets a dump of its own") {
  DeathScene s;
  s.die(kRank1);
  s.end_dump();
  s.run_for(4);
  s.die(kRank0);
  CHECK(s.journal.manifest().dumps.size() == 2);
}

TEST_CASE("deaths without a failure of a rank ask for no dump") {
  DeathScene s;
  SUBCASE("the launcher has ended it") {
    s.die(kRank1, false);
    CHECK(s.told() == Told{"end 2"});
  }
  SUBCASE("xpurun has ended it") {
    s.job.ended_by_us = true;
    s.die(kRank1);
    CHECK(s.told() == Told{"end 2", "failed 1 killed by SIGKILL"});
  }
  SUBCASE("it was the command") {
    s.die(test::kCommand);
    CHECK(s.told().size() == 2);
  }
  CHECK(s.dump == nullptr);
}
