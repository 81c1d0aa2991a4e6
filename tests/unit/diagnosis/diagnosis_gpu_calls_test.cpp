// Hangs of ranks that wait for their GPU: NCCL's record decides.
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <utility>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallSource;
using model::CallStage;
using model::RankSet;
using model::Verdict;

namespace {

const Group kTwoRanks{.members = {0, 1}};
const Group kGpuNccl{.members = {0, 1, 2, 3}, .source = CallSource::nccl};

// A hang in which every rank waits in all_reduce by its stack.
Verdict gpu_hang(const Calls& calls, int ranks) {
  Job job(ranks);
  job.all(in_all_reduce()).hang_dump();
  job.facts.collectives = calls.facts;
  return diagnose(job.facts);
}

}  // namespace

TEST_CASE("without GPU frames: a rank whose calls have all ended waits for a kernel of its own") {
  const Stack sync = {native("cudaStreamSynchronize", "libcudart.so"), py("step", "/home/u/train.py", 44)};
  const auto judged = [&](const Calls& calls) {
    Job job(4);
    job.all(sync).hang_dump();
    job.facts.collectives = calls.facts;
    return diagnose(job.facts);
  };
  const auto others_wait = [] {
    Calls calls;
    calls.past(kGpuNccl, 3).enter({0, 1, 3}, kGpuNccl, all_reduce());
    for (const base::Rank r : kGpuNccl.members) {
      calls.comm(r, kGpuNccl).done_known = true;
      calls.reaches(r, kGpuNccl, r == 2 ? CallStage::done : CallStage::launched);
    }
    return calls;
  };
  Verdict v = judged(others_wait());
  CHECK(v.id == "hang.kernel");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.where.line == 44);
  CHECK(v.sentence.find("waiting for a kernel of its own in step (train.py:44)") != std::string::npos);
  Calls in_message = others_wait();
  in_message.comm(2, kGpuNccl).messages = 5;
  in_message.comm(2, kGpuNccl).messages_done = 4;
  v = judged(in_message);
  CHECK(v.id == "hang.not_entered");
}

TEST_CASE("NCCL messages: the record of launched calls shows which send is missing") {
  const auto launched = [](model::CollectiveCall call) {
    call.stage = CallStage::launched;
    return call;
  };
  const auto judged = [&](uint64_t sent, uint64_t sends_known) {
    Calls calls;
    calls.past(kTwoRanks, 3).enters(1, kTwoRanks, all_reduce());
    for (uint64_t n = sent + 1 - sends_known; n <= sent; ++n) {
      calls.message(1, kTwoRanks, launched(send(0, n)));
    }
    calls.comm(1, kTwoRanks).messages = sent;
    calls.message(0, kTwoRanks, launched(recv(1, 19))).message(0, kTwoRanks, launched(recv(1, 20)));
    calls.comm(0, kTwoRanks).messages = 20;
    return gpu_hang(calls, 2);
  };
  Verdict v = judged(19, 16);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{1});
  // Rank 0's messages were all sent, or it is unknown.
  CHECK(judged(20, 16).id != "hang.p2p");
  CHECK(judged(30, 4).id != "hang.p2p");
  CHECK(judged(30, 0).id != "hang.p2p");
}

TEST_CASE("NCCL messages that have all ended still match the other rank's") {
  const Stack sync = {native("cudaStreamSynchronize", "libcudart.so"), py("step", "/home/u/train.py", 44)};
  const Group nccl{.name = "pair", .members = {0, 1}, .source = CallSource::nccl};
  Calls calls;
  calls.past(kTwoRanks, 3).past(nccl, 0);
  for (const auto& [rank, call] :
       {std::pair(1, send(0, 1)), std::pair(0, recv(1, 1)), std::pair(0, recv(1, 2))}) {
    model::CollectiveCall launched = call;
    launched.stage = CallStage::launched;
    calls.message(rank, kTwoRanks, launched);
    ++calls.comm(rank, kTwoRanks).messages;
    ++calls.comm(rank, nccl).messages;
    calls.comm(rank, nccl).messages_done = 1;
  }
  Job job(2);
  job.all(sync).hang_dump();
  job.facts.collectives = calls.facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{1});
}
