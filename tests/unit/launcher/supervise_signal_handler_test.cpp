#include "launcher/supervise/handlers/signal_handler.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <signal.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::Told;

namespace {

constexpr int kFromProcess = SI_USER;
constexpr int kFromTerminal = SI_KERNEL;

struct SignalHandlerScene : test::JobScene {
  DeathLedger ledger;
  JobState job;
  bool relay = true;
  int looks = 0;
  DumpRequest dump;
  std::string said;  // the last line
  SignalHandler signals{
      {loop, table, ledger, job, options, journal.dir(), test::kStart},
      {.child_ended = teller("child"),
       .look_for_stall = [this] { ++looks; },
       .still_elsewhere =
           [](double seconds) { return std::vector<model::StillElsewhere>{{.rank = 3, .still_s = seconds}}; },
       .dump =
           [this](DumpRequest request) {
             tell("dump");
             dump = std::move(request);
           },
       .hide_status_line = teller("hide"),
       .terminal_hung_up = teller("hung up"),
       .give_up_logs =
           [this] {
             tell("give up logs");
             return relay;
           },
       .stop_notifying = teller("stop telling"),
       .kill_job = teller("kill"),
       .detach = teller("detach"),
       .say =
           [this](const std::string& line) {
             said = line;
             tell(line.substr(0, line.find(' ')));
           }}};

  Told on(int number, int code) {
    signals.received({.number = number, .code = code, .sender = 1});
    return told();
  }
  // The explanation of a death of the command by SIGTERM.
  std::string hint() { return ledger.record(test::kCommand, 1, base::WaitStatus(15)).cause_hint; }
};

}  // namespace

TEST_CASE("signals with a meaning for the supervisor") {
  SignalHandlerScene s;
  s.options.dump_signal = SIGUSR2;
  CHECK(s.on(SIGCHLD, CLD_EXITED) == Told{"child"});
  CHECK(s.on(SIGUSR2, kFromProcess) == Told{"dump"});
  CHECK(s.dump.why == model::DumpReason::signal);
  s.dump.reply("dumps/1-signal", 3);
  CHECK(s.said == "stacks of 3 processes are in run/dumps/1-signal");
  CHECK(s.told() == Told{"stacks"});
  CHECK(s.on(SIGUSR1, kFromProcess).empty());  // for the command
  CHECK_FALSE(s.signals.was_interrupted());
}

TEST_CASE("an interrupt ends the wait for the user's programs") {
  SignalHandlerScene s;
  s.job.phase = JobPhase::notifying;
  CHECK(s.on(SIGTERM, kFromProcess) == Told{"stop telling"});
  CHECK(s.on(SIGINT, kFromTerminal) == Told{"stop telling"});
}

TEST_CASE("the first interrupt goes to the command, the second within the grace time kills") {
  SignalHandlerScene s;
  s.options.grace_s = 30;
  CHECK(s.on(SIGINT, kFromTerminal) == Told{"interrupted;"});
  CHECK(s.signals.was_interrupted());
  SUBCASE("within the grace time") {
    s.run_for(10);
    CHECK(s.on(SIGINT, kFromTerminal) == Told{"interrupted", "kill"});
    CHECK(s.hint() == "ended by xpurun");
  }
  SUBCASE("SIGTERM never kills") {
    CHECK(s.on(SIGTERM, kFromProcess).empty());
    CHECK(s.hint() == "after a signal that xpurun forwarded");
  }
  SUBCASE("after the grace time an interrupt counts as the first again") {
    s.run_for(31);
    CHECK(s.on(SIGINT, kFromTerminal) == Told{"interrupted;"});
  }
  SUBCASE("quiet") {
    s.run_for(31);
    s.options.verbosity = -1;
    CHECK(s.on(SIGINT, kFromTerminal).empty());
  }
}

TEST_CASE("before the first interrupt the ranks are looked at, once") {
  SignalHandlerScene s;
  s.on(SIGUSR1, kFromProcess);
  CHECK(s.looks == 0);
  s.run_for(7);
  s.on(SIGTERM, kFromProcess);
  s.run_for(2);
  s.on(SIGINT, kFromProcess);
  CHECK(s.signals.first_interrupt().at_s == doctest::Approx(7));
  CHECK(s.looks == 1);
  CHECK(s.signals.first_interrupt().signal == SIGTERM);
  CHECK_FALSE(s.signals.first_interrupt().from_terminal);
  REQUIRE(s.signals.first_interrupt().elsewhere.size() == 1);
  CHECK(s.signals.first_interrupt().elsewhere.front().still_s == SignalHandler::kStillS);
}

TEST_CASE("at the end an interrupt gives up an unresponsive reader of the output") {
  SignalHandlerScene s;
  s.job.phase = JobPhase::draining;
  CHECK(s.on(SIGINT, kFromProcess) == Told{"give up logs"});
  CHECK_FALSE(s.signals.was_interrupted());
  s.relay = false;
  CHECK(s.on(SIGINT, kFromProcess) == Told{"give up logs"});
  CHECK(s.signals.was_interrupted());
  s.job.phase = JobPhase::reporting;
  CHECK(s.on(SIGTERM, kFromProcess).empty());
}

TEST_CASE("a hang-up that nohup ignores stays ignored") {
  SignalHandlerScene s;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before {};
  REQUIRE(::sigaction(SIGHUP, &ignore, &before) == 0);
  CHECK(s.on(SIGHUP, kFromTerminal).empty());
  CHECK_FALSE(s.signals.was_interrupted());
  CHECK(s.on(SIGHUP, kFromProcess).empty());
  CHECK(s.signals.was_interrupted());
  ::sigaction(SIGHUP, &before, nullptr);
}

TEST_CASE("signals do not reach a job that xpurun has not started") {
  SignalHandlerScene s;
  s.table.set_roots({test::kCommand});
  CHECK(s.on(SIGUSR1, kFromProcess).empty());
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    CHECK(s.on(number, kFromTerminal) == Told{"detach"});
    CHECK(s.on(number, kFromProcess) == Told{"detach"});
  }
  CHECK_FALSE(s.signals.was_interrupted());
}

TEST_CASE("ranks that outlive the command: only those of a job that the user has ended are ended") {
  SignalHandlerScene s;
  s.options.grace_s = 30;
  CHECK(s.signals.late_ranks(1) == LateRanks::stay);
  SUBCASE("the terminal has signalled the ranks too") {
    s.on(SIGINT, kFromTerminal);
    CHECK(s.signals.late_ranks(1) == LateRanks::get_time);
    CHECK(s.said.find("ranks 0-1 have outlived the command: SIGTERM follows in 30 s") != std::string::npos);
    s.said.clear();
    CHECK(s.signals.late_ranks(29) == LateRanks::get_time);
    CHECK(s.said.empty());
    CHECK(s.signals.late_ranks(30) == LateRanks::end);
  }
  SUBCASE("a process has signalled xpurun alone") {
    s.on(SIGTERM, kFromProcess);
    CHECK(s.signals.late_ranks(1) == LateRanks::end);
    CHECK(s.said.find("ranks 0-1 have outlived the command: SIGTERM now") != std::string::npos);
    CHECK(s.hint() == "ended by xpurun");
  }
  SUBCASE("a job may survive its terminal") {
    s.on(SIGHUP, kFromProcess);
    CHECK(s.signals.late_ranks(60) == LateRanks::stay);
  }
  SUBCASE("--grace none ends nobody") {
    s.options.grace_s = kForever;
    s.on(SIGINT, kFromTerminal);
    CHECK(s.signals.late_ranks(60) == LateRanks::stay);
  }
}
