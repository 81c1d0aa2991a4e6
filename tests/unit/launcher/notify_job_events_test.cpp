#include "launcher/notify/job_events.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <signal.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::JobEventKind;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

struct JobEventsScene : test::JobScene {
  DeathLedger ledger;
  model::JobEvent last;
  JobEvents jobs{{loop, table, ledger, journal, options}, "/runs/r", [this](const model::JobEvent& event) {
                   last = event;
                   tell(std::string(name_of(event.event)));
                 }};

  model::Stall& stall(model::VerdictLevel level) {
    auto& all = journal.manifest().stalls;
    model::Stall& i = all.emplace_back();
    i.n = static_cast<int>(all.size());
    i.at_s = now_s();
    i.verdict.kind = model::VerdictKind::hang;
    i.verdict.level = level;
    i.verdict.ranks = model::RankSet{1};
    i.verdict.sentence = "hang: rank 1";
    return i;
  }
  void raise(base::Pid pid, model::ExceptionKind kind = model::ExceptionKind::raised) {
    model::PythonException e{.kind = kind, .pid = pid, .rank = pid - kRank0};
    e.chain.push_back({.type = "KeyError", .message = "'label'"});
    jobs.raised(e);
  }
  void die(base::Pid pid, int signal) { jobs.died(*table.find(pid), base::WaitStatus::of_signal(signal)); }
};

}  // namespace

TEST_CASE("job events: a confirmed hang is reported once, then its recovery") {
  JobEventsScene s;
  s.jobs.hang(s.stall(model::VerdictLevel::suspected));
  model::Stall& i = s.journal.manifest().stalls[0];
  i.cleared_s = 5;
  s.jobs.recovered(i);
  CHECK(s.told().empty());
  i.verdict.level = model::VerdictLevel::confirmed;
  s.jobs.hang(i);
  CHECK(s.told() == Told{"hang"});
  CHECK(s.last.sentence == "hang: rank 1");
  CHECK(s.last.ranks == model::RankSet{1});
  CHECK(s.last.hangs == 1);
  CHECK(s.last.has_verdict);
  CHECK(s.last.directory == "/runs/r");
  CHECK(s.last.report == "/runs/r/report.html");
  s.jobs.hang(i);
  CHECK(s.told().empty());
  s.jobs.recovered(i);
  CHECK(s.told() == Told{"recovery"});
  CHECK(s.last.sentence == "progress again after 15 s");  // the timeout of 10 s and 5 s more
  i.restarted_s = 20;
  s.jobs.recovered(i);
  CHECK(s.last.sentence == "ranks started again after 30 s");
  s.told();
  s.jobs.hang(s.stall(model::VerdictLevel::confirmed));
  CHECK(s.told() == Told{"hang"});
  CHECK(s.last.hangs == 2);
}

TEST_CASE(
    "job events: a stall that was found early is reported as such, and as a hang once it is confirmed") {
  JobEventsScene s;
  model::Stall i = s.stall(model::VerdictLevel::suspected);
  s.jobs.hang(i);
  CHECK(s.told().empty());  // suspected after the timeout
  i.early = true;
  s.jobs.hang(i);
  s.jobs.hang(i);
  CHECK(s.told() == Told{"stall"});
  CHECK(s.last.has_verdict);
  i.early = false;
  i.verdict.level = model::VerdictLevel::confirmed;
  s.jobs.hang(i);
  CHECK(s.told() == Told{"hang"});
}

TEST_CASE("job events: the first of a series of failures is reported") {
  JobEventsScene s;
  s.die(kRank1, SIGSEGV);
  CHECK(s.told() == Told{"crash"});
  CHECK(s.last.sentence.starts_with("crash: rank 1 (pid "));
  CHECK(s.last.sentence.ends_with("died of SIGSEGV"));
  CHECK(s.last.signal == SIGSEGV);
  s.run_for(40);
  s.raise(kRank0);
  s.run_for(40);
  s.raise(kRank0);
  CHECK(s.told().empty());
  s.run_for(61);
  s.raise(kRank0);
  CHECK(s.told() == Told{"exception"});
  CHECK(s.last.sentence == "exception: rank 0 raised KeyError: 'label'");
  CHECK(s.last.has_exception);
  CHECK(s.last.ranks == model::RankSet{0});
}

TEST_CASE("job events: only failures of ranks are reported") {
  JobEventsScene s;
  SUBCASE("the command's own death") {
    s.die(test::kCommand, SIGKILL);
  }
  SUBCASE("an exit status") {
    s.jobs.died(*s.table.find(kRank0), base::WaitStatus::of_exit(1));
  }
  SUBCASE("an exception of another thread, of another process") {
    s.raise(kRank0, model::ExceptionKind::thread);
    s.raise(kRank0, model::ExceptionKind::sys_exit);
    s.raise(test::kCommand);
  }
  SUBCASE("an exception of a rank that xpurun is ending") {
    s.ledger.we_are_ending(kRank0);
    s.raise(kRank0);
  }
  CHECK(s.told().empty());
  s.raise(kRank1);
  CHECK(s.told() == Told{"exception"});
}

TEST_CASE("job events: the signal of another process's child is known from its notice") {
  JobEventsScene s;
  s.journal.manifest().crashes.push_back({.pid = kRank0, .rank = 0, .signal = SIGABRT});
  s.jobs.died(*s.table.find(kRank0), base::WaitStatus());
  CHECK(s.told() == Told{"crash"});
  CHECK(s.last.signal == SIGABRT);
}

TEST_CASE("job events: a slowdown is reported with its sentence") {
  JobEventsScene s;
  s.jobs.slower("the job is 23 % slower since step 4,120");
  CHECK(s.told() == Told{"slow"});
  CHECK(s.last.sentence == "the job is 23 % slower since step 4,120");
  CHECK(s.last.exit_status == -1);
  CHECK_FALSE(s.last.has_verdict);
}

TEST_CASE("job events: a silent mismatch is reported with its sentence and ranks") {
  JobEventsScene s;
  s.jobs.mismatched("the job goes on with wrong data: rank 1", {1});
  CHECK(s.told() == Told{"mismatch"});
  CHECK((s.last.ranks == model::RankSet{1} && s.last.exit_status == -1));
}

TEST_CASE("job events: only the chosen kinds are reported") {
  JobEventsScene s;
  s.options.on_event_kinds = {JobEventKind::end};
  s.options.report = false;
  s.jobs.hang(s.stall(model::VerdictLevel::confirmed));
  s.die(kRank1, SIGSEGV);
  s.journal.manifest().verdict.sentence = "crash: rank 1";
  s.journal.manifest().outcome = model::RunOutcome::exit;
  s.journal.manifest().exit_status = 139;
  s.jobs.ended();
  CHECK(s.told() == Told{"end"});
  CHECK(s.last.sentence == "crash: rank 1");
  CHECK(s.last.exit_status == 139);
  CHECK(s.last.report.empty());
}
