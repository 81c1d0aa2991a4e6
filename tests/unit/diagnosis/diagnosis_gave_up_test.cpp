// The backend gives up first: the rank that fails is the victim of a rank that had not come.
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallStage;
using model::RankSet;
using model::Verdict;

namespace {

const Group kGaveUpGroup{.members = {0, 1, 2, 3}};
const std::string kGlooTimeout =
    "[unbound_buffer.cc:81] Timed out waiting 6000ms for recv operation to complete";
const std::string kClosed = "[pair.cc:598] Connection closed by peer [127.0.0.1]:4711";
const std::string kMonitored = "[Rank 0]: Ranks 2 failed to pass monitoredBarrier in 6000 ms";
const std::string kNcclTimeout =
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, "
    "Timeout(ms)=6000) ran for 6004 milliseconds before timing out.";

// The rank raises in the newest call of the group, in which it has waited for `waited_s`, `ago_s` before the
// dump.
void raises_in_call(Calls& calls, base::Rank r, double waited_s = 6, double ago_s = 1) {
  model::Communicator& c = calls.comm(r, kGaveUpGroup);
  model::CollectiveCall& call = c.calls.back();
  call.stage = CallStage::done;
  call.raised = true;
  call.age_s = waited_s + ago_s;
  call.left_s = ago_s;
  c.done = c.called;
}

void raises(Job& job, base::Rank r, const std::string& message, double at_s) {
  model::PythonException x{.pid = Job::pid_of(r), .rank = r, .thread = "MainThread", .at_s = at_s};
  x.chain.push_back({.type = "RuntimeError",
                     .message = message,
                     .frames = {{.file = "/home/u/train.py", .line = 33, .function = "step"}}});
  job.facts.run.exceptions.push_back(std::move(x));
}

// Rank 0 raises, and the launcher ends all others.
Job job_of_rank_0(const std::string& message, int status = exited(1), const std::string& cause = {}) {
  Job job(4);
  job.all(in_sleep()).died(0, status, 20, cause);
  raises(job, 0, message, 19);
  for (const base::Rank r : {1, 2, 3}) {
    job.died(r, kTerm, 21, "ended by the launcher");
  }
  job.agent_died(exited(1), 22).ended(exited(1));
  return job;
}

Verdict judged(Job job, const Calls& calls) {
  job.facts.collectives = calls.facts;
  return diagnose(job.facts);
}

Calls without_rank_2() {
  Calls calls;
  calls.past(kGaveUpGroup, 3).enter({0, 1, 3}, kGaveUpGroup, all_reduce());
  return calls;
}

void check_rank_2(const Verdict& v) {
  CHECK(v.id == "exit.not_entered");
  CHECK(v.kind == model::VerdictKind::exit);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("rank 2 has not entered all_reduce of 4096 float32 (train.py:33), call 4") !=
        std::string::npos);
}

}  // namespace

TEST_CASE("the backend gives up first: the rank that had not come is the culprit") {
  for (const std::string& message : {kGlooTimeout, kClosed, kMonitored}) {
    Calls calls = without_rank_2();
    raises_in_call(calls, 0);
    const Verdict v = judged(job_of_rank_0(message), calls);
    check_rank_2(v);
    CHECK(v.sentence.find("rank 0 raised RuntimeError: " + message.substr(0, 20)) != std::string::npos);
  }
}

TEST_CASE("the backend gives up first: the culprit's stack has no Python, its latest sample has") {
  Calls calls = without_rank_2();
  raises_in_call(calls, 0);
  Job job = job_of_rank_0(kGlooTimeout);
  job.rank(2, {native("clock_nanosleep", "libc.so.6")});
  model::RankObservation& seen = job.seen(2);
  seen.function.clear();
  seen.file.clear();
  seen.line = 0;
  for (auto& p : job.facts.run.processes) {
    if (p.rank == 2) {
      p.place = {.function = "write_checkpoint", .file = "/home/u/save.py", .line = 7};
    }
  }
  const Verdict v = judged(job, calls);
  check_rank_2(v);
  CHECK_MESSAGE(v.sentence.find("rank 2 was in write_checkpoint (save.py:7)") != std::string::npos,
                v.sentence);
  CHECK(v.where.line == 7);
}

TEST_CASE("the backend gives up first: the launcher has ended the rank before its exception did") {
  Calls calls = without_rank_2();
  raises_in_call(calls, 0);
  raises_in_call(calls, 3);
  Job job = job_of_rank_0(kGlooTimeout, kTerm, "ended by the launcher");
  raises(job, 3, kGlooTimeout, 19.01);
  const Verdict v = judged(job, calls);
  check_rank_2(v);
  CHECK(v.signal == 0);
}

TEST_CASE("the backend gives up first: what cleans up calls in vain too") {
  Calls calls = without_rank_2();
  raises_in_call(calls, 0);
  calls.enters(0, kGaveUpGroup, operation("barrier", 60));
  raises_in_call(calls, 0, 0.2, 0.5);
  check_rank_2(judged(job_of_rank_0(kClosed), calls));
}

TEST_CASE("the backend gives up first: a rank that makes the call afterwards had not come either") {
  Calls calls = without_rank_2();
  raises_in_call(calls, 0);
  raises_in_call(calls, 1);
  raises_in_call(calls, 3);
  calls.enters(2, kGaveUpGroup, all_reduce());
  raises_in_call(calls, 2, 0.1, 0.2);  // 0.7 s after the others had raised
  Job job = job_of_rank_0(kGlooTimeout);
  raises(job, 2, kClosed, 19.9);
  const Verdict v = judged(job, calls);
  CHECK(v.id == "exit.not_entered");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("rank 2 made it 0.7 s after it had failed") != std::string::npos);
  CHECK(v.level == model::VerdictLevel::confirmed);
  // Of two such ranks one may have waited for the other.
  Calls two;
  two.past(kGaveUpGroup, 3).enter({0, 1}, kGaveUpGroup, all_reduce());
  raises_in_call(two, 0);
  raises_in_call(two, 1);
  for (const base::Rank r : {2, 3}) {
    two.enters(r, kGaveUpGroup, all_reduce());
    raises_in_call(two, r, 0.1, 0.2);
  }
  raises(job, 3, kClosed, 19.9);
  CHECK(judged(job, two).ranks == RankSet{2, 3});
  CHECK(judged(job, two).level == model::VerdictLevel::suspected);
  // Not where the rank has waited for the others.
  Calls together = without_rank_2();
  together.enters(2, kGaveUpGroup, all_reduce());
  for (const base::Rank r : {0, 1, 2, 3}) {
    raises_in_call(together, r, 6 - 0.01 * r, 1);
  }
  CHECK(judged(job, together).id != "exit.not_entered");
}

TEST_CASE("the backend gives up first: in the wait for a call made before") {
  Calls calls = without_rank_2();
  for (const base::Rank r : {0, 1, 2, 3}) {
    model::Communicator& c = calls.comm(r, kGaveUpGroup);
    c.done_known = false;
    c.calls.back().stage = CallStage::launched;
  }
  check_rank_2(judged(job_of_rank_0(kGlooTimeout), calls));
}

TEST_CASE("the backend gives up first: an error of the rank's own stays its error") {
  Calls calls = without_rank_2();
  raises_in_call(calls, 0);
  Job job = job_of_rank_0(kClosed);
  raises(job, 2, "index 7 is out of bounds", 18.9);
  job.record(2).death.wait_status = base::WaitStatus(exited(1));
  job.record(2).death.follower = false;
  job.record(2).death.cause_hint.clear();
  const Verdict v = judged(job, calls);
  CHECK(v.id == "exit.exception");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("the backend gives up first: NCCL's watchdog ends the process") {
  Calls calls;
  const Group nccl{.members = {0, 1, 2, 3}, .source = model::CallSource::nccl};
  calls.past(nccl, 3).enter({0, 1, 3}, nccl, all_reduce());
  const auto crash = [](const std::string& what) {
    Job job(4);
    job.all(in_all_reduce()).rank(2, in_sleep()).notice(0, kAbrt, 20, Job::pid_of(0)).crash_dump();
    job.stacks_of(0).threads.front().cpp_exception = {.type = "c10::DistBackendError", .message = what};
    job.died(0, kAbrt, 21).ended(exited(1));
    return job;
  };
  const Verdict v = judged(crash(kNcclTimeout), calls);
  CHECK(v.id == "exit.not_entered");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("rank 0 died of SIGABRT") != std::string::npos);
  // Any other abort is the rank's own.
  CHECK(judged(crash("vector::_M_range_check"), calls).ranks == RankSet{0});
}

TEST_CASE("the backend gives up first: the ranks that have raised still live") {
  Calls calls = without_rank_2();
  raises_in_call(calls, 0);
  raises_in_call(calls, 1);
  raises_in_call(calls, 3);
  Job job(4);
  job.all(in_compute(), 0.1).rank(2, in_sleep());
  for (const base::Rank r : {0, 1, 3}) {
    raises(job, r, kGlooTimeout, 19);
  }
  job.hang_dump();
  const Verdict v = judged(job, calls);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.collective.op == "all_reduce");
  CHECK(v.sentence.find("no rank waits") == std::string::npos);
}

TEST_CASE("a rank that has died of another rank's call is no culprit of the hang") {
  Calls calls;
  calls.past(kGaveUpGroup, 3).enter({0, 1, 3}, kGaveUpGroup, all_reduce());
  calls.enters(2, kGaveUpGroup, all_reduce(4096, 60, "float64"));
  Job job(4);
  job.all(in_all_reduce()).notice(1, kAbrt, 15, Job::pid_of(1)).died(1, kAbrt, 15.5).hang_dump();
  Verdict v = judged(job, calls);
  CHECK(v.id == "hang.mismatch_type");
  CHECK(v.ranks == RankSet{2});
  // A rank that died although all calls are equal is.
  Calls equal;
  equal.past(kGaveUpGroup, 3).enter({0, 1, 2, 3}, kGaveUpGroup, all_reduce());
  v = judged(job, equal);
  CHECK(v.id == "hang.dead");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE(
    "the backend gives up first: without any record of the calls, the rank that stands is the culprit") {
  Job job(4);
  job.all(in_ddp_backward()).rank(2, in_sleep());
  for (const base::Rank r : {0, 1, 3}) {
    raises(job, r, kGlooTimeout, 19);
    job.died(r, exited(1), 20);
  }
  job.hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{2});
}

namespace {

// The latest sample of the rank: in a function of this file, which this line of the program has called.
void was_in(Job& job, base::Rank r, const std::string& function, const std::string& file, int line,
            int user_line) {
  model::ProcessRecord& p = job.record(r);
  p.function = function;
  p.file = file;
  p.line = line;
  p.place = {.function = "step", .file = "/home/u/train.py", .line = user_line};
}

const std::string kTorchDdp = "/usr/lib/python3/dist-packages/torch/autograd/graph.py";

}  // namespace

TEST_CASE("the backend gives up first: without a record of the calls, the latest samples may tell") {
  Job job = job_of_rank_0(kGlooTimeout);
  for (const base::Rank r : {1, 3}) {
    was_in(job, r, "_engine_run_backward", kTorchDdp, 841, 33);  // the line where rank 0 has failed
  }
  was_in(job, 2, "load_shard", "/home/u/data.py", 7, 12);
  job.record(2).place.file = "/home/u/data.py";
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.not_entered");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.sentence.find("rank 2 was in step (data.py:12) when rank 0 raised RuntimeError") !=
        std::string::npos);

  const auto check_unknown = [](const Job& one) {
    const Verdict unknown = diagnose(one.facts);
    CHECK(unknown.id == "exit.exception");
    CHECK(unknown.level == model::VerdictLevel::suspected);
    CHECK(unknown.confidence == model::Confidence::low);
    CHECK(unknown.sentence.find("which rank had not come is not known") != std::string::npos);
  };
  // Two of them, or one whose place is in C++ code that may have made the call.
  Job two = job;
  was_in(two, 3, "load_shard", "/home/u/data.py", 7, 12);
  check_unknown(two);
  Job framework = job;
  was_in(framework, 2, "_engine_run_backward", kTorchDdp, 841, 35);
  check_unknown(framework);
  check_unknown(job_of_rank_0(kGlooTimeout));
}

TEST_CASE("the backend gives up first: a rank that is long in ending is a victim too") {
  Job job(4);
  job.all(in_sleep());
  for (const base::Rank r : {0, 1, 3}) {
    raises(job, r, kGlooTimeout, 19);
  }
  job.died(0, exited(1), 20).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("a broken pipe or connection of the program's own is no backend that has given up") {
  for (const std::string type :
       {"BrokenPipeError", "ConnectionResetError", "requests.exceptions.ConnectionError"}) {
    Job job(4);
    job.all(in_all_reduce()).rank(2, in_compute()).cpu(2, 0.9);
    raises(job, 1, "[Errno 104] Connection reset by peer; Broken pipe", 19);
    job.facts.run.exceptions.back().chain.front().type = type;
    job.died(1, exited(1), 20).hang_dump();
    CHECK(diagnose(job.facts).ranks == RankSet{1});
  }
}
