// Ranks that wait in init_process_group for others that do not come.
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

namespace {

// All ranks wait in init_process_group.
Job joining_job(int ranks) {
  Job job(ranks);
  job.all(
      {native("__poll", "libc.so.6"),
       py("init_process_group", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 761),
       py("main", "/home/u/train.py", 3)});
  return job.hang_dump();
}

void joins(Job& job, base::Rank rank, base::Pid pid, int size, const std::string& place) {
  job.facts.collectives.ranks.push_back(
      {.rank = rank, .pid = pid, .joining = {.rank = rank, .size = size, .place = place}});
}

}  // namespace

TEST_CASE("who should be there: a rank that was never started") {
  Job job = joining_job(3);
  for (const base::Rank r : {0, 1, 2}) {
    joins(job, r, 100 + r, 4, "127.0.0.1:29500");
  }
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.not_joined");
  CHECK(v.ranks == RankSet{3});
  CHECK(
      v.sentence ==
      "hang: rank 3 of 4 was never started; ranks 0-2 have waited for it in init_process_group (train.py:3) "
      "for 10 s");
  // A look at a job that may still start says no more than that.
  Job early = joining_job(3);
  for (const base::Rank r : {0, 1, 2}) {
    joins(early, r, 100 + r, 4, "127.0.0.1:29500");
  }
  early.facts.run.judged_now = true;
  v = diagnose(early.facts);
  CHECK(v.ranks.empty());
  CHECK_MESSAGE(v.sentence.find("rank 3 of 4 has not started yet; ranks 0-2 have waited for it in") !=
                    std::string::npos,
                v.sentence);
  // With NCCL, a rank may pass init_process_group and wait in its first call.
  Job passed = joining_job(3);
  joins(passed, 0, 100, 4, "127.0.0.1:29500");
  joins(passed, 1, 101, 4, "127.0.0.1:29500");
  model::Communicator world{
      .source = model::CallSource::torch, .rank = 2, .size = 4, .members = {0, 1, 2, 3}};
  world.called = 1;
  world.calls = {{.sequence = 1, .op = "all_reduce", .age_s = 10}};
  passed.facts.collectives.ranks.push_back({.rank = 2, .pid = 102, .communicators = {world}});
  v = diagnose(passed.facts);
  CHECK(v.id == "hang.not_joined");
  CHECK(v.ranks == RankSet{3});
  CHECK_MESSAGE(v.sentence.find("rank 3 of 4 was never started; ranks 0-2 have waited for it in "
                                "init_process_group (train.py:3)") != std::string::npos,
                v.sentence);
  // Or in a call that DDP makes in C++.
  passed.facts.collectives.ranks.back().communicators.front().called = 0;
  passed.facts.collectives.ranks.back().communicators.front().calls.clear();
  v = diagnose(passed.facts);
  CHECK(v.id == "hang.not_joined");
  CHECK(v.ranks == RankSet{3});
  // A rank that has finished a call was in a group of all.
  passed.facts.collectives.ranks.back().communicators.front().called = 1;
  passed.facts.collectives.ranks.back().communicators.front().launched = 1;
  CHECK(diagnose(passed.facts).id != "hang.not_joined");
  // A process without a rank has raised before.
  job.facts.run.exceptions = {{.kind = model::ExceptionKind::raised,
                               .pid = 4711,
                               .at_s = 1,
                               .chain = {{.type = "KeyError", .message = "'lr'"}}}};
  v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{3});
  CHECK_MESSAGE(
      v.sentence.find("rank 3 of 4 has not come: pid 4711 raised KeyError: 'lr'; ranks 0-2 have waited "
                      "for it in init_process_group (train.py:3) for 10 s") != std::string::npos,
      v.sentence);
  CHECK(v.sentence.find("never started") == std::string::npos);
  job.facts.run.exceptions.clear();
  // The rank may be on another host.
  for (auto& r : job.facts.collectives.ranks) {
    r.joining.place = "10.0.0.1:29500";
  }
  v = diagnose(job.facts);
  CHECK(v.id == "hang.all_waiting");
  CHECK(v.ranks.empty());
  CHECK(v.sentence.find("rank 3 of 4 is not on this host or never started") != std::string::npos);
  // A rank that works on its way to the call is the culprit.
  Job late = joining_job(3);
  late.rank(2, in_sleep()).hang_dump();
  joins(late, 0, 100, 4, "127.0.0.1:29500");
  joins(late, 1, 101, 4, "127.0.0.1:29500");
  v = diagnose(late.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("who should be there: a rank number that two processes use") {
  Job job = joining_job(2);
  joins(job, 0, 100, 3, "127.0.0.1:29500");
  joins(job, 1, 101, 3, "127.0.0.1:29500");
  joins(job, 1, 102, 3, "127.0.0.1:29500");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.not_joined");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: 2 processes have called init_process_group (train.py:3) as rank 1 of 3 (pids 101, "
        "102), and none as rank 2");
}

TEST_CASE("who should be there: a process that was started as a rank that another one is") {
  Job job = joining_job(2);
  joins(job, 0, 100, 3, "127.0.0.1:29500");
  joins(job, 1, 101, 3, "127.0.0.1:29500");
  job.facts.run.processes.push_back(
      {.pid = 103, .role = model::ProcessRole::other, .rank = 1, .comm = "python", .python = true});
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(
      v.sentence.find("2 processes have called init_process_group (train.py:3) as rank 1 of 3 (pids 101, "
                      "103), and none as rank 2") != std::string::npos,
      v.sentence);
}

TEST_CASE("who should be there: ranks that meet at another port") {
  Job job = joining_job(3);
  joins(job, 0, 100, 3, "node-a:29500");
  joins(job, 1, 101, 3, "10.0.0.1:29501");
  joins(job, 2, 102, 3, "10.0.0.1:29500");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.not_joined");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("rank 1 at 10.0.0.1:29501") != std::string::npos);
  CHECK(v.sentence.find("ranks 0,2 at node-a:29500") != std::string::npos);
  // Two ranks: either may be wrong.
  Job pair = joining_job(2);
  joins(pair, 0, 100, 2, "node-a:29500");
  joins(pair, 1, 101, 2, "node-a:29501");
  CHECK(diagnose(pair.facts).ranks.empty());
  // One port under two names of a host is no difference.
  pair.facts.collectives.ranks[1].joining.place = "10.0.0.1:29500";
  CHECK(diagnose(pair.facts).id == "hang.all_waiting");
}
