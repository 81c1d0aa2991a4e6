// Several stalls at the same time, and ranks that work during a stall.
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

namespace {

Stack in_accept() {
  return {native("accept4", "libc.so.6"), py("accept", "/usr/lib/python3.11/socket.py", 294),
          py("serve", "/home/u/serve.py", 9)};
}

}  // namespace

TEST_CASE("a stall is judged by its own ranks") {
  Job job(4);
  job.all(in_compute(), 1).hang_dump();
  model::Stall& stall = job.facts.run.stalls.at(0);
  SUBCASE("an idle rank has a stall of its own") {
    job.rank(0, in_lock()).rank(1, in_lock()).rank(2, in_accept(), 30);
    job.seen(2).outside = model::OutsideWait::connection;
    stall.ranks = {0, 1};
    model::Stall idle{.n = 2, .ranks = {2}, .at_s = 1, .dump = "dumps/0-hang"};
    job.facts.run.stalls.insert(job.facts.run.stalls.begin(), idle);
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.lock");
    CHECK(v.level == model::VerdictLevel::confirmed);
    CHECK(v.ranks == RankSet{0, 1});
  }
  SUBCASE("ranks that move are not accused") {
    job.rank(1, in_sleep());
    stall.ranks = {1};
    Verdict v = diagnose(job.facts);
    CHECK(v.ranks == RankSet{1});
    // The rank may wait for the others.
    CHECK(v.level == model::VerdictLevel::suspected);
    for (const base::Rank r : {0, 2, 3}) {
      job.died(r, exited(0), 5);
    }
    v = diagnose(job.facts);
    CHECK(v.id == "hang.stuck");
    CHECK(v.level == model::VerdictLevel::confirmed);
    CHECK(v.ranks == RankSet{1});
  }
  SUBCASE("unless a rank waits for others") {
    job.rank(1, in_all_reduce());
    job.cpu(0, 0.9);
    stall.ranks = {1};
    CHECK(diagnose(job.facts).id == "hang.busy");
  }
  SUBCASE("no rank can end a wait for a lock of another process, but for one that processes share") {
    job.rank(1, in_lock());
    stall.ranks = {1};
    CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
    job.stacks_of(1).threads.at(0).frames.insert(
        job.stacks_of(1).threads.at(0).frames.begin(),
        native("_multiprocessing_SemLock_acquire_impl", "_multiprocessing.cpython-311-x86_64-linux-gnu.so"));
    CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  }
  SUBCASE("a rank of another stall is the one that ranks in multiprocessing may wait for") {
    const Stack wait = {py("Condition.wait", "/usr/lib/python3.11/multiprocessing/synchronize.py", 261),
                        py("Barrier.wait", "/usr/lib/python3.11/threading.py", 668),
                        py("work", "/home/u/train.py", 15),
                        py("BaseProcess._bootstrap", "/usr/lib/python3.11/multiprocessing/process.py", 314)};
    job.all(wait).rank(1, in_sleep());
    stall.ranks = {0, 2, 3};
    const model::Stall other{.n = 2, .ranks = {1}, .at_s = 1, .dump = "dumps/0-hang"};
    job.facts.run.stalls.insert(job.facts.run.stalls.begin(), other);
    const Verdict v = diagnose(job.facts);
    CHECK(v.ranks == RankSet{1});
    CHECK_MESSAGE(v.sentence.find("rank 1 has been in load_batch") != std::string::npos, v.sentence);
  }
  SUBCASE("a crash of another rank is not the consequence of an idle rank") {
    job.rank(2, in_accept(), 30);
    job.seen(2).outside = model::OutsideWait::connection;
    stall.ranks = {2};
    stall.verdict = diagnose(job.facts);
    CHECK(stall.verdict.level == model::VerdictLevel::suspected);
    job.died(1, exited(1), 40).ended(exited(1));
    CHECK(diagnose(job.facts).kind == model::VerdictKind::exit);
  }
}

TEST_CASE("a rank that works is placed by all samples, and the sentence says how to end the job") {
  Job job(3);
  job.all(in_barrier()).rank(0, in_compute(), 0.1).cpu(0, 0.9).hang_dump();
  job.seen(0).common_place = {.function = "evaluate", .file = "/home/u/train.py", .line = 70};
  job.facts.run.options = {{.name = "on-hang", .value = "kill"}};
  Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(
      v.sentence ==
      "stall: rank 0 is still working in evaluate (train.py:70) after 10 s; ranks 1-2 wait for it in barrier "
      "(train.py:51); the job goes on, because this may be work (--busy-timeouts N ends it after N "
      "timeouts)");
  SUBCASE("unless the job would not be ended anyway") {
    job.facts.run.options[0].value = "report";
    CHECK(diagnose(job.facts).sentence.ends_with("(train.py:51)"));
  }
  SUBCASE("or the user has asked for it") {
    job.facts.run.options.push_back({.name = "busy-timeouts", .value = "5"});
    CHECK(diagnose(job.facts).sentence.ends_with("(train.py:51)"));
  }
}

TEST_CASE("ranks that have only just come to their call are working") {
  // A pipeline: ranks 2-3 wait for ranks 0-1, whose first stage takes long.
  const Group tensor{.name = "1", .members = {0, 1}};
  Job job(4);
  job.all(in_all_reduce(), 0.5).rank(2, in_barrier()).rank(3, in_barrier()).hang_dump();
  for (const base::Rank r : {0, 1}) {
    job.cpu(r, 0.4).seen(r).common_place = {
        .function = "Stage.forward", .file = "/home/u/train.py", .line = 148};
  }
  Calls calls;
  calls.enter({0, 1}, tensor, all_reduce());
  job.facts.collectives = calls.facts;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.sentence ==
        "stall: ranks 0-1 are still working in Stage.forward (train.py:148) after 10 s; ranks 2-3 wait for "
        "them "
        "in barrier (train.py:51)");
  SUBCASE("they may set the call up, for which there is more time") {
    job.rank(0, in_all_reduce()).rank(1, in_all_reduce());
    v = diagnose(job.facts);
    CHECK(v.id == "hang.network");
    CHECK(v.level == model::VerdictLevel::suspected);
    CHECK(v.sentence.find("perhaps to set it up") != std::string::npos);
  }
  SUBCASE("but no more than for ranks that do nothing") {
    job.rank(0, in_all_reduce(), 40).rank(1, in_all_reduce(), 40);
    job.facts.run.stalls.at(0).since_s = 10;
    job.facts.dump->at_s = 50;
    CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
  }
  SUBCASE("nor for ranks that wait without a CPU") {
    job.rank(0, in_all_reduce()).rank(1, in_all_reduce()).cpu(0, 0).cpu(1, 0);
    CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
  }
  SUBCASE("different calls prove a hang at once") {
    Calls different;
    different.enters(0, tensor, all_reduce()).enters(1, tensor, broadcast());
    job.facts.collectives = different.facts;
    v = diagnose(job.facts);
    CHECK(v.id == "hang.mismatch");
    CHECK(v.level == model::VerdictLevel::confirmed);
  }
  SUBCASE("a rank that hangs is named whenever the others came") {
    job.rank(1, in_sleep()).cpu(1, 0);
    v = diagnose(job.facts);
    CHECK(v.id == "hang.stuck");
    CHECK(v.ranks == RankSet{1});
  }
}

TEST_CASE("a moment of uninterruptible sleep is no culprit") {
  Job job(2);
  job.rank(0, in_all_reduce()).rank(1, in_compute(), 0.0).kernel_state(1, 'D').hang_dump();
  CHECK(diagnose(job.facts).id == "hang.busy");
}

TEST_CASE(
    "a rank that the others wait for is no confirmed hang before it has been still for the timeout itself") {
  Job job(4);
  job.all(in_all_reduce()).rank(1, in_lock(), 8).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.sentence.starts_with("stall: rank 1 "));
  SUBCASE("judged again after the timeout") {
    job.seen(1).still_s = 10;
  }
  SUBCASE("the stall has outlasted --busy-timeouts") {
    job.facts.dump->escalated = true;
  }
  SUBCASE("somebody cannot wait for the timeout") {
    job.facts.dump->hang_timeout_s = 5;
  }
  SUBCASE("another rank has been still for the timeout") {
    job.rank(2, in_lock());
  }
  CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
}

TEST_CASE("nothing is known about a stall while its dump is being taken") {
  Job job(2);
  job.all(in_all_reduce()).hang_dump();
  job.facts.run.stalls.at(0).dump.clear();
  job.facts.dump.reset();
  job.facts.dump_dir.clear();
  CHECK(diagnose(job.facts).kind == model::VerdictKind::running);
}

TEST_CASE("a stall before the hang timeout is only suspected") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  REQUIRE(diagnose(job.facts).level == model::VerdictLevel::confirmed);
  job.facts.run.stalls.back().early = true;
  const Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.starts_with("stall: rank 2 has been in load_batch "));
}

TEST_CASE("ranks in the shutdown of torch's RPC wait for the others, and do not work") {
  constexpr auto* kApi = "/usr/lib/python3/dist-packages/torch/distributed/rpc/api.py";
  const Stack ends = {native("pthread_cond_timedwait", "libc.so.6"),
                      py("Event.wait", "/usr/lib/python3.11/threading.py", 629),
                      py("_all_gather", kApi, 257),
                      py("_wait_all_workers", kApi, 320),
                      py("shutdown", kApi, 382),
                      py("<module>", "/home/u/train.py", 73)};
  Job job(3);
  job.all(ends).rank(0, in_lock()).hang_dump();
  job.cpu(1, 0.3);  // of a thread of the transport
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{0});
  CHECK_MESSAGE(v.sentence.find("ranks 1-2 wait for it in RPC shutdown (train.py:73)") != std::string::npos,
                v.sentence);
}

TEST_CASE("ranks that are looked at again after the dump have stood still since the same moment") {
  Job job(2);
  job.facts.run.started_wall_ns = 1'795'230'915'000'000'000;  // 03:15:15 UTC
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  const std::string since = diagnose(job.facts).since;
  CHECK(since == "2026-11-21T03:16:05Z");
  for (model::RankObservation& rank : job.facts.dump->ranks) {
    rank.still_s += 8;
  }
  job.facts.dump->at_s = job.facts.run.dumps.front().at_s + 8;
  CHECK(diagnose(job.facts).since == since);
}
