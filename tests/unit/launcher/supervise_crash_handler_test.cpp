#include "launcher/supervise/handlers/crash_handler.h"
#include "tests/unit/launcher/dump_scene.h"

#include <doctest/doctest.h>

#include <signal.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

struct CrashHandlerScene : test::DumpScene {
  DeathLedger ledger;
  bool interrupted = false;
  CrashHandler crashes{{table, journal, ledger, dumps, job},
                       {.look_at = [this](base::Pid pid) { table.look_at(pid); },
                        .was_interrupted = [this] { return interrupted; },
                        .release = [this](base::Pid pid) { release(pid); }}};

  void crash(base::Pid pid, int signal, base::Pid sender = 0) {
    wire::Notice notice{};
    notice.signal = signal;
    notice.sender_pid = sender;
    notice.ucontext = 0x99;
    crashes.process_crashed(notice, pid, pid + 1000);
  }
};

}  // namespace

TEST_CASE("a rank that crashes is held for a dump") {
  CrashHandlerScene s;
  s.crash(kRank1, SIGSEGV);
  CHECK(s.told().empty());
  REQUIRE(s.dump != nullptr);
  const model::CrashNotice& crash = s.journal.manifest().crashes.at(0);
  CHECK(crash.rank == 1);
  CHECK(crash.signal == SIGSEGV);
  CHECK(crash.tid == kRank1 + 1000);
  CHECK(s.journal.manifest().dumps.at(0).why == model::DumpReason::crash);
  s.run_for(0.001);
  s.dump->end();
  s.run_for(0.001);
  CHECK(s.told() == Told{"release 2"});
  CHECK(crash.dump == "dumps/1-crash");
  s.crash(kRank0, SIGABRT);
  CHECK(s.told() == Told{"release 1"});
  CHECK(s.journal.manifest().crashes.at(1).dump == "dumps/1-crash");
}

TEST_CASE("a termination gets a dump unless it has another cause") {
  CrashHandlerScene s;
  SUBCASE("a SIGTERM without a known cause") {
    s.crash(kRank0, SIGTERM, 1);
    CHECK(s.journal.manifest().dumps.at(0).why == model::DumpReason::terminated);
    return;
  }
  SUBCASE("the user has interrupted the job") {
    s.interrupted = true;
    s.crash(kRank0, SIGTERM);
  }
  SUBCASE("a rank has failed before") {
    (void)s.ledger.record(kRank1, 1, base::WaitStatus(9));
    s.crash(kRank0, SIGTERM);
  }
  SUBCASE("xpurun is ending the job") {
    s.job.ended_by_us = true;
    s.crash(kRank0, SIGSEGV);
  }
  SUBCASE("the command has ended") {
    s.job.phase = JobPhase::settling;
    s.crash(kRank0, SIGSEGV);
  }
  CHECK(s.told() == Told{"release 1"});
  CHECK(s.dump == nullptr);
  CHECK(s.journal.manifest().crashes.size() == 1);
}

TEST_CASE("processes that take no part in the job may die at once") {
  CrashHandlerScene s;
  s.crash(5000999, SIGSEGV);
  CHECK(s.told().size() == 1);
  CHECK(s.dump == nullptr);
}

TEST_CASE("a rank that xpurun ends for a restart is not held") {
  CrashHandlerScene s;
  s.ledger.we_are_ending(kRank1);
  s.crash(kRank1, SIGTERM, test::kSupervisor);
  CHECK(s.told() == Told{"release 2"});
  CHECK(s.dump == nullptr);
}
