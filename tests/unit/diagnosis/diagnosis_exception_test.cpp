#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::ExceptionKind;
using model::PythonException;
using model::RankSet;
using model::Verdict;

namespace {

PythonException& tell(Job& job, base::Rank rank, ExceptionKind kind, double at_s, std::string type,
                      std::string message) {
  PythonException x{
      .kind = kind, .pid = Job::pid_of(rank), .rank = rank, .thread = "MainThread", .at_s = at_s};
  x.chain.push_back(
      {.type = std::move(type),
       .message = std::move(message),
       .frames = {{.file = "/home/u/train.py", .line = 90, .function = "main"},
                  {.file = "/home/u/data.py", .line = 21, .function = "collate", .source = "x[k]"},
                  {.file = "/usr/lib/python3.11/enum.py", .line = 5, .function = "__call__"}}});
  job.facts.run.exceptions.push_back(std::move(x));
  return job.facts.run.exceptions.back();
}

bool has(const std::vector<std::string>& lines, const std::string& wanted) {
  return std::find(lines.begin(), lines.end(), wanted) != lines.end();
}

// Rank 2 of 4 fails at 12 s; torchrun ends the others.
Job failed_rank(int status = 1) {
  Job job(4);
  job.died(2, exited(status), 12.4);
  for (base::Rank r : {0, 1, 3}) {
    job.died(r, kTerm, 13, "ended by the launcher (SIGTERM from pid 50)");
  }
  job.agent_died(exited(1), 13.5).ended(exited(1));
  return job;
}

}  // namespace

TEST_CASE("the verdict is the exception at the user's own line") {
  Job job = failed_rank();
  tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.kind == model::VerdictKind::exception);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.exit_code == 1);
  CHECK(v.where.function == "collate");
  CHECK(v.where.line == 21);
  CHECK(v.sentence ==
        "exception: rank 2 (host a, pid 102) raised KeyError: 'label' at data.py:21 (in collate) after 12 s; "
        "ranks 0-1,3 were ended after it");
  CHECK(has(v.evidence, "  File \"/home/u/data.py\", line 21, in collate"));
}

TEST_CASE("the first exception decides, not the first death") {
  Job job(2);
  job.died(0, exited(1), 12.2).died(1, exited(1), 12.9);
  job.agent_died(exited(1), 13).ended(exited(1));
  tell(job, 0, ExceptionKind::raised, 12.1, "RuntimeError", "Connection closed by peer [127.0.0.1]:4711");
  tell(job, 1, ExceptionKind::raised, 12.05, "ValueError", "bad batch");
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.confidence == model::Confidence::high);
}

TEST_CASE("a killed rank precedes the ranks whose connections broke, even if its death was seen later") {
  Job job(2);
  job.died(0, exited(1), 12.9).died(1, kKill, 12.15);
  job.agent_died(exited(1), 13).ended(exited(1));
  tell(job, 0, ExceptionKind::raised, 12.1, "RuntimeError", "Connection closed by peer [127.0.0.1]:4711");
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.killed");
  CHECK(v.ranks == RankSet{1});
  job.record(1).death.at_s = 12.5;
  v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.ranks == RankSet{0});
}

TEST_CASE("exceptions are ordered by the host's clock, not by arrival") {
  Job job(2);
  job.facts.run.started_wall_ns = 1'000'000'000'000;
  job.died(0, exited(1), 12.9).died(1, exited(1), 12.9);
  job.agent_died(exited(1), 13).ended(exited(1));
  tell(job, 0, ExceptionKind::raised, 12.1, "RuntimeError", "late").wall_ns = 1'012'060'000'000;
  tell(job, 1, ExceptionKind::raised, 12.2, "ValueError", "early").wall_ns = 1'012'050'000'000;
  CHECK(diagnose(job.facts).ranks == RankSet{1});
}

TEST_CASE("a crash during the interpreter's shutdown does not hide the exception") {
  Job job(2);
  job.died(1, kAbrt, 14).agent_died(exited(1), 15).ended(exited(1));
  tell(job, 1, ExceptionKind::raised, 12, "ValueError", "bad batch");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.seconds == doctest::Approx(12));
}

TEST_CASE("an exit call counts if the process ended with its status") {
  Job job = failed_rank(7);
  tell(job, 2, ExceptionKind::sys_exit, 12.1, "SystemExit", "no data").code = 7;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.error");
  CHECK(v.sentence ==
        "exit: rank 2 (host a, pid 102) called sys.exit('no data') at data.py:21 (in collate) after 12 s; "
        "ranks "
        "0-1,3 were ended after it");
  job.facts.run.exceptions.back().code = 3;
  v = diagnose(job.facts);
  CHECK(v.where.function.empty());
  CHECK(v.sentence.find("sys.exit") == std::string::npos);
}

TEST_CASE("an exit while handling an exception names the exception") {
  Job job = failed_rank();
  PythonException& x = tell(job, 2, ExceptionKind::sys_exit, 12.1, "SystemExit", "");
  x.code = 1;
  x.chain.push_back(x.chain.front());
  x.chain[1].relation = model::Relation::context;
  x.chain[1].type = "KeyError";
  x.chain[1].message = "'label'";
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("called sys.exit(1) at data.py:21 (in collate) while handling KeyError: 'label' at "
                        "data.py:21 (in collate)") != std::string::npos);
}

TEST_CASE("an exception that the process survived is no cause") {
  Job job(1);
  job.died(0, exited(0), 12).ended(exited(0));
  tell(job, 0, ExceptionKind::raised, 5, "ValueError", "caught by a prompt");
  CHECK(diagnose(job.facts).id == "none.finished");
}

TEST_CASE("the launcher's messages about its children, or about a signal that ends it, are consequences") {
  for (const char* type : {"torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
                           "torch.distributed.elastic.multiprocessing.api.SignalException"}) {
    CAPTURE(type);
    Job job = failed_rank();
    PythonException& x = tell(job, 2, ExceptionKind::raised, 12, type, "\n====\ntrain.py FAILED");
    x.pid = Job::kAgentPid;
    x.rank = base::kNoRank;
    const Verdict v = diagnose(job.facts);
    CHECK(v.ranks == RankSet{2});
    CHECK(v.id == "exit.error");
    for (const std::string& line : v.evidence) {
      CHECK_MESSAGE(line.find("train.py FAILED") == std::string::npos, line);
    }
  }
}

TEST_CASE("exceptions of other threads are evidence in a hang too") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_queue()).hang_dump_escalated();
  tell(job, 1, ExceptionKind::thread, 3, "KeyError", "'label'").thread = "feeder";
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(has(v.evidence,
            "at 3.00 s: thread feeder of rank 1 raised KeyError: 'label' at data.py:21 (in collate)"));
}

TEST_CASE("a rank that hangs while it handles an exception") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  model::ExceptionLink& handling = job.stacks_of(2).threads[0].handling;
  handling = {.type = "KeyError",
              .message = "'label'",
              .frames = {{.file = "/home/u/train.py", .line = 30, .function = "step"},
                         {.file = "/home/u/data.py", .line = 21, .function = "collate"}}};
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence ==
        "hang: rank 2 (host a, pid 102) has been in load_batch (train.py:31: time.sleep) for 10 s while "
        "handling KeyError: 'label' at data.py:21 (in collate); ranks 0-1,3 wait for it in all_reduce "
        "(train.py:44)");
  // Programs may run normally inside such a handler.
  handling.type = "ModuleNotFoundError";
  v = diagnose(job.facts);
  CHECK(v.sentence.find("handling") == std::string::npos);
  CHECK(has(v.evidence,
            "rank 2 is handling ModuleNotFoundError: 'label' at data.py:21 (in collate), caught in step "
            "(train.py)"));
}

TEST_CASE("a rank that hangs after an exception ended one of its threads") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_queue()).hang_dump();
  tell(job, 2, ExceptionKind::thread, job.facts.dump->at_s - 5, "ValueError", "shard 17").thread = "loader";
  tell(job, 1, ExceptionKind::thread, job.facts.dump->at_s - 5, "ValueError", "not the culprit's");
  tell(job, 2, ExceptionKind::thread, job.facts.dump->at_s + 5, "ValueError", "after the hang");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.sentence.find("for 10 s; its thread loader raised ValueError: shard 17 at data.py:21 (in collate); "
                        "ranks 0-1,3 wait") != std::string::npos);
}

TEST_CASE("a rank whose shutdown hangs after an exception") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  tell(job, 2, ExceptionKind::raised, job.facts.dump->at_s - 5, "KeyError", "'label'");
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.sentence.find("for 10 s after it raised KeyError: 'label' at data.py:21 (in collate)") !=
        std::string::npos);
}

TEST_CASE("an exception of a rank with an unknown status") {
  Job job = failed_rank();
  job.record(2).death.wait_status = base::WaitStatus();
  tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'");
  CHECK(diagnose(job.facts).id == "exit.exception");
}
