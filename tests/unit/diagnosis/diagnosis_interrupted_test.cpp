// Runs that a signal to xpurun has ended: what followed from the signal is not the cause.
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <utility>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

namespace {

constexpr double kSignalS = 80;  // the dump is of 60 s

// After the dump, whose stacks stay as they are.
void ends_later(Job& job, base::Rank rank, int wait_status, double at_s) {
  job.record(rank).death = {
      .happened = true, .order = rank + 1, .at_s = at_s, .wait_status = base::WaitStatus(wait_status)};
}

void raises_later(Job& job, base::Rank rank, std::string type, double at_s) {
  model::PythonException x{.kind = model::ExceptionKind::raised,
                           .pid = Job::pid_of(rank),
                           .rank = rank,
                           .thread = "MainThread",
                           .at_s = at_s};
  x.chain.push_back({.type = std::move(type),
                     .message = "",
                     .frames = {{.file = "/home/u/train.py", .line = 90, .function = "main"}}});
  job.facts.run.exceptions.push_back(std::move(x));
}

// Rank 1 stands in load_batch, the others wait for it, and then Ctrl-C.
Job interrupted_hang() {
  Job job(4);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  job.facts.run.stalls[0].verdict = diagnose(job.facts);
  job.facts.run.elapsed_s = kSignalS + 2;
  job.facts.run.interrupt = {.signal = SIGINT, .from_terminal = true, .at_s = kSignalS};
  return job;
}

void check_hang(const Job& job) {
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "interrupted.while_hung");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.starts_with("interrupted: by the user after 82 s, while rank 1 has been in load_batch "));
  CHECK(v.sentence.find("; ranks 0,2-3 wait for it in all_reduce (train.py:44)") != std::string::npos);
}

}  // namespace

TEST_CASE("ranks that end well after the signal had still stood still") {
  Job job = interrupted_hang();
  for (const base::Rank r : {0, 1, 2, 3}) {
    ends_later(job, r, exited(0), kSignalS + 0.1 * r);
  }
  job.ended(0);
  check_hang(job);
  CHECK(dump_that_matters(job.facts.run) == "dumps/1-hang");
  // The job went on for long, and then ended.
  job.facts.run.elapsed_s = kSignalS + 600;
  CHECK(diagnose(job.facts).id == "none.finished");
}

TEST_CASE("what a rank raises because of the signal is not the cause") {
  for (const std::string type : {"KeyboardInterrupt", "RuntimeError", "SignalException"}) {
    CAPTURE(type);
    Job job = interrupted_hang();
    raises_later(job, 1, type, kSignalS + 0.1);
    ends_later(job, 1, exited(1), kSignalS + 0.2);
    ends_later(job, 0, kTerm, kSignalS + 0.3);
    SUBCASE("the command fails too") {
      job.ended(exited(1));
      job.facts.run.outcome = model::RunOutcome::interrupted;
    }
    SUBCASE("the command exits with status 0") {
      job.ended(0);
    }
    check_hang(job);
  }
}

TEST_CASE("KeyboardInterrupt explains no stall, whoever has sent SIGINT") {
  Job job = interrupted_hang();
  job.facts.run.interrupt = {};
  SUBCASE("Python has raised it") {
    raises_later(job, 1, "KeyboardInterrupt", kSignalS);
    ends_later(job, 1, exited(1), kSignalS + 0.2);
    job.ended(exited(1));
  }
  SUBCASE("the process died of the signal") {
    ends_later(job, 1, SIGINT, kSignalS + 0.2);
    job.ended(exited(1));
  }
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("a rank that had raised before the stall is the cause of an interrupted hang") {
  Job job(3);
  job.all(in_all_reduce());
  raises_later(job, 2, "KeyError", 20);
  job.died(2, exited(1), 20.5).hang_dump();
  job.facts.run.elapsed_s = kSignalS + 1;
  job.facts.run.interrupt = {.signal = SIGINT, .from_terminal = true, .at_s = kSignalS};
  ends_later(job, 0, SIGINT, kSignalS + 0.1);
  ends_later(job, 1, SIGINT, kSignalS + 0.1);
  job.facts.run.outcome = model::RunOutcome::interrupted;
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::interrupted);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("rank 2 raised KeyError at train.py:90 (in main)") != std::string::npos);
  CHECK(v.sentence.find("ranks 0-1 wait for it") != std::string::npos);
}

TEST_CASE("a failure before the signal is told where no stall was seen") {
  Job job(3);
  raises_later(job, 2, "KeyError", 70);
  job.died(2, exited(1), 70.5);
  job.facts.run.elapsed_s = kSignalS + 1;
  job.facts.run.interrupt = {.signal = kTerm, .at_s = kSignalS};
  job.died(0, kTerm, kSignalS + 0.1).died(1, kTerm, kSignalS + 0.1);
  job.facts.run.outcome = model::RunOutcome::interrupted;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "interrupted.signal");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.starts_with(
      "interrupted: by SIGTERM after 81 s; before the signal, rank 2 raised KeyError at "
      "train.py:90 (in main) after 70 s"));
  // What came with the signal is no failure of its own.
  job.facts.run.interrupt.at_s = 70;
  v = diagnose(job.facts);
  CHECK(v.sentence == "interrupted: by SIGTERM after 81 s");
}

TEST_CASE("a job that works, catches the signal and ends well has finished") {
  Job job(2);
  job.facts.run.interrupt = {.signal = kTerm, .at_s = 58};
  job.died(0, exited(0), 59).died(1, exited(0), 59).ended(0);
  CHECK(diagnose(job.facts).id == "none.finished");
  // A rank has failed because of the signal, and its parent hides that.
  Job hidden(2);
  hidden.facts.run.interrupt = {.signal = SIGINT, .from_terminal = true, .at_s = 58};
  raises_later(hidden, 1, "KeyboardInterrupt", 58.1);
  hidden.died(1, exited(1), 58.2).died(0, exited(0), 59).ended(0);
  CHECK(diagnose(hidden.facts).sentence == "interrupted: by the user after 60 s");
}

TEST_CASE("a job that timeout(1) has ended says who stood still") {
  Job job(2);
  job.died(0, kTerm, 30, "ended by the launcher").died(1, kTerm, 30, "ended by the launcher");
  job.ended(exited(124));
  job.facts.run.command = {"timeout", "30", "torchrun", "train.py"};
  job.facts.run.elapsed_s = 30.4;
  model::ProcessRecord command{.pid = job.facts.run.main_pid, .comm = "timeout"};
  command.death = {.happened = true, .order = 3, .at_s = 30.2, .wait_status = base::WaitStatus(exited(124))};
  for (const base::Rank r : {0, 1}) {
    job.record(r).death.follower = true;
    job.record(r).still = {{.from_s = 10, .to_s = 30}};
    job.record(r).last_progress_s = 30;
  }
  job.record(0).place = {.function = "main", .file = "/home/u/train.py", .line = 12, .callee = "all_reduce"};
  job.record(1).place = {.function = "refresh", .file = "/home/u/train.py", .line = 4};
  job.facts.run.processes.push_back(std::move(command));
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence ==
        "interrupted: by the time limit of timeout after 30 s, while rank 1 had been in refresh (train.py:4) "
        "for 20 s; rank 0 waits for it in all_reduce (train.py:12)");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.title.starts_with("ended while rank 1 is stuck in refresh (train.py:4)"));
  Job script = job;
  script.facts.run.command = {"bash", "run.sh"};
  CHECK(
      diagnose(script.facts).sentence.starts_with("interrupted: by a time limit (status 124) after 30 s, "));
  // It did not move again before it died.
  job.record(1).still = {};
  job.record(1).last_progress_s = 10;
  CHECK(diagnose(job.facts).sentence == v.sentence);
  job.record(1).last_progress_s = 30;
  // Who moved until the end is accused of nothing.
  job.record(1).still = {{.from_s = 29, .to_s = 30}};
  CHECK(diagnose(job.facts).id == "exit.launcher");
}
