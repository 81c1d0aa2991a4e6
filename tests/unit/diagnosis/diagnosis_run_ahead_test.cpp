// Calls long before the newest ones: the hosts of some ranks have run ahead of GPUs that stand.
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report::testing;
using model::CallSource;
using model::CallStage;
using model::Departure;
using model::RankSet;
using model::Verdict;

namespace {

const Group kAheadTorch{.members = {0, 1}};
const Group kAheadNccl{.members = {0, 1}, .source = CallSource::nccl};
const std::vector<model::CollectiveCall> kBuckets = {all_reduce(1049600, 40), all_reduce(3148800, 40)};

// The calls of one rank: `step` again and again, all of which have ended.
void all_end(Calls& calls, base::Rank rank, const Group& group,
             const std::vector<model::CollectiveCall>& step, int times) {
  for (int i = 0; i < times; ++i) {
    for (const model::CollectiveCall& call : step) {
      calls.finishes(rank, group, call);
    }
  }
}

}  // namespace

// DDP calls all_reduce in C++, which torch's record does not have. The host of the other rank has run ahead,
// so that its record no longer has the call that met the lone one.
TEST_CASE("a lone call beside DDP's is a departure, also if the other rank has called much since") {
  for (const model::CollectiveCall& lone : {operation("barrier", 18), all_reduce(1, 18)}) {
    CAPTURE(lone.op);
    Calls calls;
    for (const base::Rank r : {0, 1}) {
      all_end(calls, r, kAheadNccl, kBuckets, 40);
    }
    calls.enters(0, kAheadNccl, lone).reaches(0, kAheadNccl, CallStage::launched);
    for (int i = 0; i < 20; ++i) {
      for (const model::CollectiveCall& call : kBuckets) {
        calls.enters(1, kAheadNccl, call).reaches(1, kAheadNccl, CallStage::launched);
      }
    }
    calls.comm(0, kAheadTorch);
    calls.comm(1, kAheadTorch);
    calls.enters(0, kAheadTorch, lone);
    const Verdict v = hang(calls, 2);
    CAPTURE(v.sentence);
    CHECK(v.ranks == RankSet{0});
    CHECK(v.collective.source == CallSource::nccl);
    CHECK(v.collective.departure != Departure::none);
    CHECK(v.sentence.find("call 81 ") != std::string::npos);
  }
}

// The hosts have run ahead: of the calls before the newest ones, the record has those whose sizes changed.
TEST_CASE("sizes of an all_to_all that do not fit, long before the newest call") {
  const auto sized = [](uint64_t number, std::vector<uint64_t> sent) {
    model::CollectiveCall call = operation("all_to_all", 9, sent[0] + sent[1]);
    call.sequence = number;
    call.stage = CallStage::launched;
    call.sent = std::move(sent);
    call.received = {8, 8};
    return call;
  };
  for (const base::Rank odd : {0, 1}) {
    CAPTURE(odd);
    Calls calls;
    for (const base::Rank r : {0, 1}) {
      for (uint64_t i = 1; i <= 60; ++i) {
        const bool changed = r == odd && i == 31;
        calls.enters(r, kAheadTorch,
                     sized(i, changed && r == 0 ? std::vector<uint64_t>{8, 4}
                              : changed         ? std::vector<uint64_t>{4, 8}
                                                : std::vector<uint64_t>{8, 8}));
      }
      model::Communicator& comm = calls.comm(r, kAheadTorch);
      comm.done_known = false;
      comm.launched = comm.called;
      std::vector<model::CollectiveCall> older = {sized(1, {8, 8})};
      if (r == odd) {
        older.push_back(sized(31, r == 0 ? std::vector<uint64_t>{8, 4} : std::vector<uint64_t>{4, 8}));
        older.push_back(sized(32, {8, 8}));
      }
      comm.calls.insert(comm.calls.begin(), older.begin(), older.end());
    }
    const Verdict v = hang(calls, 2);
    CAPTURE(v.sentence);
    CHECK(v.id == "hang.mismatch_size");
    CHECK(v.sentence.find("call 31 ") != std::string::npos);
    CHECK(v.sentence.find("4 to rank") != std::string::npos);
    CHECK(v.sentence.find("8 expected from rank") != std::string::npos);
  }
}

// A layer that one rank left out shifts all its later calls, which NCCL let meet those of the other rank.
TEST_CASE("of shifted calls, the one that shifted them is named") {
  const std::vector<model::CollectiveCall> layers = {
      operation("all_gather", 34, 100), operation("all_gather", 34, 200), operation("all_gather", 34, 300)};
  const Group torch{.name = "pg", .members = {0, 1}};
  Calls calls;
  for (const Group& group : {torch, kAheadNccl}) {
    for (const base::Rank r : {0, 1}) {
      all_end(calls, r, group, layers, 20);
      if (r == 1) {
        calls.finishes(1, group, layers[0]).finishes(1, group, layers[2]);
      } else {
        all_end(calls, 0, group, layers, 1);
      }
      all_end(calls, r, group, layers, 3);
    }
  }
  for (const base::Rank r : {0, 1}) {
    calls.comm(r, kAheadNccl).done = 70;
    calls.comm(r, torch).done_known = false;
    calls.comm(r, torch).done = 0;
    for (model::CollectiveCall& call : calls.comm(r, torch).calls) {
      call.stage = CallStage::launched;
    }
  }
  const Verdict v = hang(calls, 2);
  CAPTURE(v.sentence);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("call 62 ") != std::string::npos);
}

// A loop of launches in a full queue stands in a launch whenever it is looked at.
TEST_CASE("a full launch queue is a wait of a rank that has stopped calling only") {
  const auto judged = [](double age_s) {
    Calls calls;
    for (const base::Rank r : {0, 1}) {
      model::CollectiveCall call = kBuckets[0];
      call.age_s = age_s;
      calls.finishes(r, kAheadNccl, call);
    }
    Job job(2);
    job.all({native("cuLaunchKernel", "libcuda.so.1"), py("train", "train.py", 44)}).hang_dump();
    for (const base::Rank r : {0, 1}) {
      job.seen(r).main_cpu_share = job.seen(r).cpu_share = 1;
    }
    job.facts.collectives = calls.facts;
    return diagnose(job.facts);
  };
  const Verdict stands = judged(9);
  CAPTURE(stands.sentence);
  CHECK(stands.level == model::VerdictLevel::confirmed);
  CHECK(stands.state != model::RankState::busy);
  const Verdict works = judged(0.2);
  CAPTURE(works.sentence);
  CHECK(works.level == model::VerdictLevel::suspected);
  CHECK(works.state == model::RankState::busy);
}

TEST_CASE("of two ranks, the one in a call that it never made before has left the steps") {
  const Group world{.members = {0, 1}};
  // gloo: DDP's calls are not recorded.
  const auto judged = [&](uint64_t steps, int barriers) {
    Job job(2);
    job.all(in_ddp_backward()).rank(1, in_barrier()).hang_dump();
    Calls calls;
    calls.comm(0, world);
    for (int i = 1; i < barriers; ++i) {
      calls.finishes(1, world, operation("barrier", 0, 51));
    }
    calls.enters(1, world, operation("barrier", 0, 51));
    job.facts.collectives = calls.facts;
    for (model::RankCollectives& r : job.facts.collectives.ranks) {
      r.steps = steps;
    }
    return diagnose(job.facts);
  };
  const Verdict v = judged(80, 1);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: rank 1 has waited in barrier (train.py:51) for 10 s while rank 0 waits in backward "
        "(all_reduce) at "
        "train.py:40, as in the 80 steps before");
  CHECK(judged(80, 3).ranks.empty());  // as after each epoch
  CHECK(judged(0, 1).ranks.empty());
}
