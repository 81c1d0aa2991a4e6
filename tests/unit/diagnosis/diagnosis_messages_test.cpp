// Hangs in sends and receives that the recorded calls decide.
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallStage;
using model::RankSet;
using model::Verdict;

namespace {

const Group kFour{.members = {0, 1, 2, 3}};
const Group kPair{.members = {0, 1}};

}  // namespace

TEST_CASE("a send that was never called") {
  Calls calls;
  calls.past(kFour, 3).message(0, kFour, recv(1, 5)).enter({1, 2, 3}, kFour, all_reduce());
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: rank 1 has not called the send that another rank waits for: rank 0 waits in recv of 8 float32 "
        "from rank 1 (train.py:24); rank 1 is in all_reduce of 4096 float32 (train.py:33)");
}

TEST_CASE("a rank in recv while the others are in a call of C++ code is the minority") {
  Job job(3);
  job.all(in_ddp_backward()).hang_dump();
  job.rank(1, {native("gloo::transport::tcp::UnboundBuffer::waitRecv", "libtorch_cpu.so"),
               py("recv", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 1000),
               py("main", "/home/u/train.py", 24)});
  Calls calls;
  job.facts.collectives = calls.past({.name = "0", .members = {0, 1, 2}}, 3)
                              .message(1, {.name = "0", .members = {0, 1, 2}}, recv(0, 1))
                              .facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE(
    "a first recv from a rank that is in a collective with the others: the receiver has left the routine") {
  Calls calls;
  calls.past(kFour, 3).message(1, kFour, recv(2, 1)).enter({0, 2, 3}, kFour, all_reduce());
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: rank 1 called recv of 8 float32 from rank 2 (train.py:24) where ranks 0,2-3 called all_reduce "
        "of 4096 "
        "float32 (train.py:33), call 4 of group \"default\"");
  // Of two ranks, either may be wrong.
  CHECK(hang(Calls().past(kPair, 3).message(1, kPair, recv(0, 1)).enter({0}, kPair, all_reduce()), 2).id ==
        "hang.p2p");
}

TEST_CASE("a receive that was never called, in a chain of stages") {
  // 2 waits for 1, 1 waits for 0, and 0 sends to 3, which is outside any call.
  Job job(4);
  job.all(in_all_reduce()).rank(3, in_sleep()).hang_dump();
  Calls calls;
  calls.message(2, kFour, recv(1, 1)).message(1, kFour, recv(0, 1)).message(0, kFour, send(3, 1));
  calls.past({.name = "other", .members = {3}}, 1);
  job.facts.collectives = calls.facts;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{3});
  CHECK(v.collective.present());
  v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{3});
}

TEST_CASE("messages that meet with different sizes, and a circle of messages") {
  Verdict v = hang(Calls().message(0, kPair, send(1, 1, 20, 8)).message(1, kPair, recv(0, 1, 24, 4)), 2);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(v.sentence ==
        "hang: a send and its recv differ: rank 0 called send of 8 float32 to rank 1 (train.py:20), rank 1 "
        "called recv of 4 float32 from rank 0 (train.py:24)");
  v = hang(Calls().message(0, kPair, recv(1, 1)).message(1, kPair, recv(0, 1)), 2);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
}

TEST_CASE("messages with different tags do not meet: nobody else is accused") {
  const auto tagged = [](model::CollectiveCall call, int tag) {
    call.tag = tag;
    return call;
  };
  Calls calls;
  calls.past(kFour, 3).message(0, kFour, tagged(send(1, 1), 5)).message(1, kFour, tagged(recv(0, 1), 6));
  calls.enter({2, 3}, kFour, operation("barrier", 10));
  Verdict v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(v.sentence ==
        "hang: a send and its recv differ: rank 0 called send of 8 float32 to rank 1 with tag 5 "
        "(train.py:20), rank 1 called recv of 8 float32 from rank 0 with tag 6 (train.py:24)");
  REQUIRE(v.collective.calls.size() == 2);
  CHECK(v.collective.calls[0].tag == 5);
  // Legal: another order of the tags. The receives are numbered by tag, so each has its send.
  Calls legal;
  legal.past(kFour, 3);
  for (const int tag : {1, 2}) {
    auto sent = tagged(send(1, 1, 20, 8UL * static_cast<unsigned>(tag)), tag);
    auto received = tagged(recv(0, 1, 24, 8UL * static_cast<unsigned>(tag)), tag);
    sent.stage = received.stage = CallStage::launched;
    legal.message(0, kFour, sent);
    legal.comm(1, kFour).point_to_point.insert(legal.comm(1, kFour).point_to_point.begin(), received);
  }
  legal.enter({0, 1, 3}, kFour, all_reduce());
  const auto fault = find_call_fault(legal.facts);
  REQUIRE(fault);
  CHECK(fault->fault == CallFault::not_entered);
  CHECK(fault->accused == RankSet{2});
}

TEST_CASE("a send to the wrong rank: each wait is worded by itself, and its receiver is not accused") {
  Calls calls;
  calls.past(kFour, 3).message(0, kFour, send(2, 1)).message(1, kFour, recv(0, 1));
  calls.enter({2, 3}, kFour, operation("barrier", 10));
  Verdict v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(
      v.sentence ==
      "hang: ranks wait for each other in messages without a counterpart: rank 0 waits in send of 8 float32 "
      "to rank 2 (train.py:20), which has not called the recv, rank 1 waits in recv of 8 float32 from rank "
      "0 (train.py:24), which has not called the send; rank 2 is in barrier (train.py:10)");
  // The same two calls in a pipeline that has run for a while: rank 2 has left out its recv.
  Calls later;
  later.past(kFour, 3).message(0, kFour, send(2, 9)).message(1, kFour, recv(0, 9));
  later.enter({2, 3}, kFour, operation("barrier", 10));
  v = hang(later);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("after a routine without messages: who waits only for another that departed is a victim") {
  for (const int size : {3, 4}) {
    CAPTURE(size);
    Group all{.members = {0, 1, 2}};
    std::vector<base::Rank> rest{2};
    if (size == 4) {
      all.members.push_back(3);
      rest.push_back(3);
    }
    const auto verdict = [&](const std::vector<std::pair<base::Rank, model::CollectiveCall>>& messages) {
      Calls calls;
      calls.past(all, 20);
      for (const auto& [rank, call] : messages) {
        calls.message(rank, all, call);
      }
      return hang(calls.enter(rest, all, all_reduce()), size);
    };
    Verdict v = verdict({{0, send(1, 1)}, {1, recv(2, 1)}});
    CHECK(v.ranks == RankSet{1});
    CHECK(v.sentence.find("rank 1 called recv of 8 float32 from rank 2") != std::string::npos);
    v = verdict({{0, send(2, 1)}, {1, recv(0, 1)}});
    CHECK(v.ranks == RankSet{0});
    CHECK(v.sentence.find("rank 0 called send of 8 float32 to rank 2") != std::string::npos);
    // Two that wait for each other: either may be wrong.
    v = verdict({{0, send(1, 1)}, {1, send(0, 1)}});
    CHECK(v.id == "hang.p2p");
    CHECK(v.ranks.empty());
    // A message of its own: nobody waits for it.
    CHECK(verdict({{1, recv(2, 1)}, {0, recv(2, 1)}}).ranks == RankSet{0, 1});
  }
}

TEST_CASE(
    "a stage that left out one of many sends is the culprit, not the one that waits for it at the end") {
  const Group stages{.members = {0, 1, 2}};
  Calls calls;
  uint64_t sent = 0;
  for (uint64_t n = 1; n <= 20; ++n) {
    calls.passes(0, stages, send(1, n)).passes(1, stages, recv(0, n));
    if (n != 14) {
      calls.passes(1, stages, send(2, ++sent));
    }
    if (n < 20) {
      calls.passes(2, stages, recv(1, n));
    }
  }
  calls.message(2, stages, recv(1, 20)).enter({0, 1}, stages, operation("barrier", 60));
  const Verdict v = hang(calls, 3);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("13 times before it was the other way round") != std::string::npos);
}

TEST_CASE("a message that has met its other end is no departure") {
  const auto phases = [](Calls& calls) {
    calls.past(kFour, 20);
    for (uint64_t i = 1; i <= 10; ++i) {
      calls.passes(0, kFour, send(1, i)).passes(1, kFour, recv(0, i));
      for (base::Rank rank = 0; rank < 4; ++rank) {
        calls.finishes(rank, kFour, all_reduce());
      }
    }
  };
  Calls receive;
  phases(receive);
  receive.message(0, kFour, send(1, 11)).message(1, kFour, recv(2, 1));
  Verdict v = hang(receive.enter({2, 3}, kFour, all_reduce()));
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("rank 1 called recv of 8 float32 from rank 2") != std::string::npos);
  Calls sends;
  phases(sends);
  sends.message(0, kFour, send(2, 1)).message(1, kFour, recv(0, 11));
  v = hang(sends.enter({2, 3}, kFour, all_reduce()));
  CHECK(v.ranks == RankSet{0});
  CHECK(v.sentence.find("rank 0 called send of 8 float32 to rank 2") != std::string::npos);
}
