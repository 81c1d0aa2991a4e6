#include "launcher/ending/rank_restart.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <signal.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kCommand;
using test::kRank0;
using test::kRank1;

namespace {

constexpr base::Pid kWorker = kCommand + 3;
constexpr base::Pid kNewRank0 = kCommand + 4;

struct RestartScene : test::JobScene {
  DeathLedger ledger;
  RankRestart restart{{loop, table, ledger}, teller("restarted"), fake.proc()};

  bool restarted() {
    restart.rank_found();
    return told() == test::Told{"restarted"};
  }
  // Instead of the ranks of the scene: ranks of a torchelastic agent with these variables.
  void start_ranks(const std::string& variables) {
    for (const base::Pid pid : {kRank0, kRank1}) {
      fake.end(pid);
      table.mark_dead(pid);
    }
    fake.add(kRank0, kCommand, "python3", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 " + variables);
    fake.add(kRank1, kCommand, "python3", "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 " + variables);
    table.refresh();
  }
};

}  // namespace

TEST_CASE("restart: possible only below a torchelastic agent with restarts left") {
  RestartScene s;
  CHECK(s.restart.obstacle() == "no launcher that restarts ranks has started rank 0");
  s.start_ranks("TORCHELASTIC_MAX_RESTARTS=2 TORCHELASTIC_RESTART_COUNT=1");
  CHECK(s.restart.obstacle().empty());
  s.start_ranks("TORCHELASTIC_MAX_RESTARTS=2 TORCHELASTIC_RESTART_COUNT=2");
  CHECK(s.restart.obstacle() == "the launcher has used its 2 restarts");
  s.start_ranks("TORCHELASTIC_MAX_RESTARTS=0 TORCHELASTIC_RESTART_COUNT=0");
  CHECK(s.restart.obstacle() == "the launcher was started without --max-restarts");
  s.start_ranks("TORCHELASTIC_MAX_RESTARTS=2 TORCHELASTIC_RESTART_COUNT=x");
  CHECK(s.restart.obstacle() == "no launcher that restarts ranks has started rank 0");
  s.start_ranks("TORCHELASTIC_MAX_RESTARTS=2 TORCHELASTIC_RESTART_COUNT=0");
  s.fake.end(kCommand);
  s.table.mark_dead(kCommand);
  s.table.refresh();
  CHECK(s.restart.obstacle() == "no launcher that restarts ranks has started rank 0");
  for (const base::Pid pid : {kRank0, kRank1}) {
    s.fake.end(pid);
    s.table.mark_dead(pid);
  }
  CHECK(s.restart.obstacle() == "no rank is alive");
}

TEST_CASE("restart: deaths of the ranks and their helpers are its consequences until ranks are found again") {
  RestartScene s;
  s.fake.add(kWorker, kRank0, "python3", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2");
  s.table.refresh();
  CHECK_FALSE(s.restarted());
  s.restart.begin(5);
  CHECK(s.restart.pending());
  CHECK_FALSE(s.restarted());  // the ranks still live
  for (const base::Pid pid : {kRank0, kRank1, kWorker}) {
    CHECK(s.ledger.ended_by_us(pid));
  }
  CHECK_FALSE(s.ledger.ended_by_us(kCommand));
  const model::Death death = s.ledger.record(kRank0, 1, base::WaitStatus::of_signal(SIGTERM));
  CHECK(death.follower);
  CHECK(death.cause_hint == "ended by xpurun");
  CHECK_FALSE(s.ledger.failure_seen());
  s.run_for(10);
  for (const base::Pid pid : {kWorker, kRank0, kRank1}) {
    s.fake.end(pid);
    s.table.mark_dead(pid);
  }
  CHECK_FALSE(s.restarted());
  CHECK(s.restart.pending());
  s.fake.add(kNewRank0, kCommand, "python3", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2");
  s.table.refresh();
  CHECK(s.restarted());
  CHECK_FALSE(s.restart.pending());
  CHECK_FALSE(s.restarted());
  CHECK(s.table.replaced(kRank0));
  CHECK_FALSE(s.table.replaced(kRank1));
  CHECK_FALSE(s.table.replaced(kNewRank0));
}
