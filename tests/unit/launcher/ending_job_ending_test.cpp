#include "launcher/ending/job_ending.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::Told;

namespace {

struct EndingScene : test::JobScene {
  bool dumping = false;
  bool reporting = false;
  bool wants_report = true;
  std::function<void()> drained;  // called by the test, as by the relay
  bool has_relay = true;
  std::function<void()> programs_ended;  // called by the test, as by the user's programs
  bool has_programs = false;
  std::function<LateRanks(double)> late_ranks = [](double) { return LateRanks::stay; };
  JobEnding ending{{loop, storage, table},
                   "run",
                   {.command_ended = teller("command ended"),
                    .give_up = [this](const std::string& why) { tell(why); },
                    .dumping = [this] { return dumping; },
                    .late_ranks = [this](double since_end_s) { return late_ranks(since_end_s); },
                    .drain_logs =
                        [this](std::function<void()> done) {
                          tell("drain");
                          if (has_relay) {
                            drained = std::move(done);
                          } else {
                            done();
                          }
                        },
                    .record = teller("record"),
                    .request_report =
                        [this] {
                          reporting = wants_report;
                          tell(wants_report ? "report" : "no report");
                          return wants_report;
                        },
                    .reporting = [this] { return reporting; },
                    .print_end = teller("print"),
                    .notify_of_end =
                        [this](std::function<void()> done) {
                          if (has_programs) {
                            tell("tell");
                            programs_ended = std::move(done);
                          } else {
                            done();
                          }
                        }}};

  explicit EndingScene(bool ranks_live = false) {
    for (const base::Pid pid : {test::kRank0, test::kRank1}) {
      if (!ranks_live) {
        end(pid);
      }
    }
  }

  void end(base::Pid pid) {
    fake.end(pid);
    table.mark_dead(pid);
  }
  JobPhase phase() const { return ending.state().phase; }
  // Whether the loop stopped by itself.
  bool ends() {
    bool late = false;
    const auto timer = loop.after(60, [&] {
      late = true;
      loop.stop();
    });
    REQUIRE(loop.run());
    loop.cancel(timer);
    return !late;
  }
};

}  // namespace

TEST_CASE("a job ends phase by phase") {
  EndingScene s;
  CHECK_FALSE(s.ending.state().is_ending());
  s.ending.command_ended(base::WaitStatus(3 << 8));
  CHECK(s.told() == Told{"command ended"});
  CHECK(s.phase() == JobPhase::settling);
  CHECK(s.ending.state().command_status.exit_code() == 3);
  s.ending.command_ended(base::WaitStatus(0));
  CHECK(s.told().empty());
  s.run_for(0.1);
  CHECK(s.phase() == JobPhase::draining);
  CHECK(s.told() == Told{"drain"});
  CHECK(s.ending.state().may_write_logs());
  s.drained();
  CHECK(s.told() == Told{"record", "report"});
  CHECK(s.phase() == JobPhase::reporting);
  CHECK_FALSE(s.ending.state().may_write_logs());
  s.ending.report_done();  // the other nodes are still awaited
  CHECK(s.told().empty());
  CHECK(s.phase() == JobPhase::reporting);
  s.loop.after(1, [&] {
    s.reporting = false;
    s.ending.report_done();
  });
  CHECK(s.ends());
  CHECK(s.told() == Told{"print"});
}

TEST_CASE("the programs of the user are awaited after the verdict has been printed") {
  EndingScene s;
  s.has_relay = false;
  s.has_programs = true;
  s.wants_report = true;
  SUBCASE("after a report") {
    s.ending.command_ended(base::WaitStatus(0));
    s.run_for(0.1);
    s.reporting = false;
    s.ending.report_done();
    CHECK(s.told() == Told{"command ended", "drain", "record", "report", "print", "tell"});
  }
  SUBCASE("without a report") {
    s.wants_report = false;
    s.ending.command_ended(base::WaitStatus(0));
    s.run_for(0.1);
    CHECK(s.told() == Told{"command ended", "drain", "record", "no report", "tell"});
  }
  CHECK(s.phase() == JobPhase::notifying);
  s.ending.proceed();
  s.ending.report_done();
  CHECK(s.told().empty());
  s.loop.after(2, [&] { s.programs_ended(); });
  CHECK(s.ends());
  CHECK(s.phase() == JobPhase::finished);
}

TEST_CASE("without relay and report the job ends at once") {
  EndingScene s;
  s.has_relay = false;
  s.wants_report = false;
  s.ending.command_ended(base::WaitStatus(0));
  CHECK(s.ends());
  CHECK(s.phase() == JobPhase::finished);
  CHECK(s.told() == Told{"command ended", "drain", "record", "no report"});
}

TEST_CASE("ranks have some time to end after their launcher") {
  EndingScene s(true);
  SUBCASE("and are not awaited for longer") {
    s.ending.command_ended(base::WaitStatus(0));
    s.run_for(0.9);
    CHECK(s.phase() == JobPhase::settling);
    s.run_for(0.2);
    CHECK(s.phase() == JobPhase::draining);
  }
  SUBCASE("or end before") {
    s.ending.command_ended(base::WaitStatus(0));
    s.run_for(0.3);
    s.end(test::kRank0);
    s.end(test::kRank1);
    s.run_for(0.1);
    CHECK(s.phase() == JobPhase::draining);
  }
  SUBCASE("unless xpurun only watches the job") {
    s.ending.detach();
    s.run_for(0.1);
    CHECK(s.phase() == JobPhase::draining);
  }
}

TEST_CASE("ranks that outlive the command of a job that the user has ended") {
  EndingScene s(true);
  s.late_ranks = [&](double since_end_s) { return since_end_s < 2 ? LateRanks::get_time : LateRanks::end; };
  s.ending.command_ended(base::WaitStatus(2));
  s.run_for(1.9);
  CHECK(s.phase() == JobPhase::settling);
  SUBCASE("they end in that time") {
    s.end(test::kRank0);
    s.end(test::kRank1);
    s.run_for(0.1);
    CHECK(s.phase() == JobPhase::draining);
  }
  SUBCASE("they are ended") {
    s.run_for(0.3);
    CHECK(s.phase() == JobPhase::settling);
    CHECK_FALSE(s.ending.state().ended_by_us);
    s.end(test::kCommand);
    s.end(test::kRank0);
    s.end(test::kRank1);
    s.run_for(0.1);
    CHECK(s.phase() == JobPhase::draining);
  }
}

TEST_CASE("a dump in progress at the end is awaited") {
  EndingScene s;
  s.dumping = true;
  s.ending.command_ended(base::WaitStatus(9));
  SUBCASE("before the output of the ranks is drained") {
    s.run_for(1);
    CHECK(s.phase() == JobPhase::settled);
    CHECK(s.told() == Told{"command ended"});
    s.dumping = false;
    s.ending.proceed();
    CHECK(s.told() == Told{"drain"});
  }
  SUBCASE("if it ends while the job settles, the settling time still passes") {
    s.dumping = false;
    s.ending.proceed();
    CHECK(s.phase() == JobPhase::settling);
    s.run_for(0.1);
    CHECK(s.phase() == JobPhase::draining);
  }
  SUBCASE("and once more if it began while the output was drained") {
    s.dumping = false;
    s.run_for(0.1);
    s.dumping = true;
    s.drained();
    CHECK(s.phase() == JobPhase::drained);
    CHECK(s.told() == Told{"command ended", "drain"});
    s.dumping = false;
    s.ending.proceed();
    CHECK(s.told() == Told{"record", "report"});
  }
}

TEST_CASE("the end of a dump has no effect while the command lives") {
  EndingScene s;
  s.ending.proceed();
  s.ending.report_done();
  CHECK(s.phase() == JobPhase::running);
  CHECK(s.told().empty());
}

TEST_CASE("processes that xpurun is ending are awaited after the command, and killed after the grace time") {
  EndingScene s(true);
  s.ending.terminate(5);
  CHECK(s.ending.state().ended_by_us);
  CHECK_FALSE(s.ending.state().has_ended());
  s.ending.command_ended(base::WaitStatus(15));
  s.run_for(3);
  CHECK(s.phase() == JobPhase::settling);  // the ranks live on
  SUBCASE("until they are gone") {
    s.fake.end(test::kRank0);
    s.fake.end(test::kRank1);
    s.fake.end(test::kCommand);
    for (const base::Pid pid : {test::kRank0, test::kRank1, test::kCommand}) {
      s.table.mark_dead(pid);
    }
    s.run_for(0.1);
    CHECK(s.phase() == JobPhase::draining);
  }
  SUBCASE("or do not end despite KILL") {
    s.run_for(11);
    CHECK(s.phase() == JobPhase::settling);
    s.run_for(2);
    CHECK(s.phase() == JobPhase::draining);
  }
}

namespace {
// Finishes no operation.
struct StalledStorage final : Storage {
  explicit StalledStorage(EventLoop& l) : loop(l) {}
  void submit(FileOperation, Done) override {}
  void when_written(double patience_s, std::function<void(Written)> then) override {
    loop.after(patience_s, [then = std::move(then)] { then(Written::stalled); });
  }
  std::string problem() const override { return ""; }
  EventLoop& loop;
};
}  // namespace

TEST_CASE("a hung file system is given up at the end") {
  test::JobScene s;
  StalledStorage stalled(s.loop);
  JobEnding ending({s.loop, stalled, s.table}, "run",
                   {.command_ended = [] {},
                    .give_up = [&](const std::string& why) { s.tell(why); },
                    .dumping = [] { return true; },
                    .late_ranks = [](double) { return LateRanks::stay; },
                    .drain_logs = {},
                    .record = {},
                    .request_report = {},
                    .reporting = {},
                    .print_end = {}});
  ending.command_ended(base::WaitStatus(0));
  s.run_for(1);
  CHECK(s.told().empty());
  s.run_for(1);
  CHECK(s.told() == Told{"the file system of run does not answer"});
}
