// Who has departed from the routine: one rank's calls alone, and the calls of all.
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/collectives/open_calls.h"
#include "report/diagnosis/collectives/routine.h"
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallSource;
using model::CallStage;
using model::Departure;
using model::RankSet;
using model::Verdict;

namespace {

const Group kRoutinePair{.members = {0, 1}};
const Group kRoutineFour{.members = {0, 1, 2, 3}};
const Group kNcclPair{.members = {0, 1}, .source = CallSource::nccl};

std::vector<int> repeated(const std::vector<int>& step, int times, std::vector<int> tail = {}) {
  std::vector<int> out;
  for (int i = 0; i < times; ++i) {
    out.insert(out.end(), step.begin(), step.end());
  }
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

// The calls of one rank: `step` again and again, all of which have ended.
void steps(Calls& calls, base::Rank rank, const Group& group, const std::vector<model::CollectiveCall>& step,
           int times) {
  for (int i = 0; i < times; ++i) {
    for (const model::CollectiveCall& call : step) {
      calls.finishes(rank, group, call);
    }
  }
}

const std::vector<model::CollectiveCall> kStep = {all_reduce(1049600, 40), all_reduce(3148800, 40)};

}  // namespace

TEST_CASE("surprises: none in a routine, however it is made") {
  CHECK(surprises(repeated({1, 2, 3}, 40)).empty());
  CHECK(surprises(repeated({1}, 40)).empty());
  CHECK(surprises(repeated({1, 1, 1, 1, 1, 1, 1, 1, 2}, 20)).empty());
  // An evaluation every eighth step: the first one only.
  for (const Surprise& s : surprises(repeated(repeated({1, 2}, 8, {9, 9}), 12))) {
    CHECK(s.at < 20);
  }
  CHECK(surprises({}).empty());
  CHECK(surprises(std::vector<int>{1, 2, 3}).empty());
  // No routine: data decide.
  std::mt19937 random(7);
  std::vector<int> noise(300);
  std::generate(noise.begin(), noise.end(), [&] { return static_cast<int>(random() % 3); });
  CHECK(surprises(noise).size() < 6);
}

TEST_CASE("surprises: one call more, less, another, or in another order") {
  const auto only = [](const std::vector<int>& calls) {
    const std::vector<Surprise> found = surprises(calls);
    for (const Surprise& s : found) {
      CAPTURE(s.at);
      CAPTURE(s.expected);
      CHECK(s.at > 9);
    }
    REQUIRE(found.size() == 1);
    return found[0];
  };
  Surprise s = only(repeated({1, 2, 3}, 20, {1, 9, 2, 3, 1}));
  CHECK(s.kind == Departure::extra);
  CHECK(s.at == 61);
  CHECK(s.expected == 2);
  CHECK(s.repeated >= 19);
  s = only(repeated({1, 2, 3}, 20, {1, 3, 1, 2}));
  CHECK(s.kind == Departure::skipped);
  CHECK(s.expected == 2);
  CHECK(s.left_out == 1);
  s = only(repeated({1, 2, 3}, 20, {1, 9, 3, 1}));
  CHECK(s.kind == Departure::other);
  s = only(repeated({1, 2, 3, 4}, 20, {1, 3, 2, 4, 1}));
  CHECK(s.kind == Departure::order);
  CHECK(s.expected == 2);
  s = only(repeated({1, 2}, 14, {9}));
  CHECK(s.kind == Departure::other);
  CHECK(s.repeated == 14);
  // One of a run of equal calls left out.
  s = only(repeated({1, 1, 1, 1, 1, 1, 2}, 12, {1, 1, 1, 1, 1, 2, 1}));
  CHECK(s.kind == Departure::skipped);
  CHECK(s.expected == 1);
}

TEST_CASE("of two ranks the one that does what it never did before is named") {
  Calls calls;
  for (const base::Rank r : {0, 1}) {
    steps(calls, r, kNcclPair, kStep, 14);
  }
  calls.enters(0, kNcclPair, kStep[0]).enters(1, kNcclPair, operation("all_gather", 74, 4));
  Verdict v = hang(calls, 2);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.confidence == model::Confidence::high);
  CHECK(v.collective.departure == Departure::other);
  CHECK(v.collective.repeated == 14);
  CHECK(
      v.sentence ==
      "hang: rank 1 called all_gather of 4 float32 (train.py:74) where rank 0 called all_reduce of 1049600 "
      "float32 (train.py:40), call 29 of group \"default\"; before, rank 1 had called all_reduce of 1049600 "
      "float32 (train.py:40) there 14 times");
  // A barrier before the call of the other.
  Calls barrier;
  for (const base::Rank r : {0, 1}) {
    steps(barrier, r, kNcclPair, kStep, 10);
  }
  barrier.enters(0, kNcclPair, operation("barrier", 50)).enters(1, kNcclPair, kStep[0]);
  v = hang(barrier, 2);
  CHECK(v.ranks == RankSet{0});
  CHECK(v.sentence.find("rank 0 called barrier (train.py:50)") != std::string::npos);
  // Another size.
  Calls size;
  for (const base::Rank r : {0, 1}) {
    steps(size, r, kRoutinePair, kStep, 10);
  }
  size.enters(0, kRoutinePair, kStep[0]).enters(1, kRoutinePair, all_reduce(524800, 40));
  v = hang(size, 2);
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("what neither past nor others tell is a tie") {
  // Both do something new.
  Calls both;
  for (const base::Rank r : {0, 1}) {
    steps(both, r, kRoutinePair, kStep, 14);
  }
  both.enters(0, kRoutinePair, operation("barrier", 50))
      .enters(1, kRoutinePair, operation("all_gather", 74, 4));
  CHECK(hang(both, 2).ranks.empty());
  // No routine so far.
  Calls early;
  early.past(kRoutinePair, 2).enters(0, kRoutinePair, all_reduce()).enters(1, kRoutinePair, broadcast());
  CHECK(hang(early, 2).ranks.empty());
}

TEST_CASE("a majority counts more than the routine: most ranks have begun to evaluate") {
  Calls calls;
  for (const base::Rank r : kRoutineFour.members) {
    steps(calls, r, kRoutineFour, kStep, 14);
    calls.enters(r, kRoutineFour, r == 3 ? kStep[0] : operation("all_gather", 74, 4));
  }
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{3});
}

TEST_CASE("one call more of equal shape: the ranks that are one call behind are innocent") {
  Calls calls;
  for (const base::Rank r : kRoutineFour.members) {
    for (int i = 0; i < 20; ++i) {
      if (r == 2 && i == 12) {
        calls.finishes(r, kRoutineFour, all_reduce(16, 41));
      }
      if (r == 2 && i == 19) {
        calls.enters(r, kRoutineFour, all_reduce(16, 30));
      } else {
        calls.finishes(r, kRoutineFour, all_reduce(16, 30));
      }
    }
  }
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence ==
        "hang: rank 2 made one call more than the other ranks: all_reduce of 16 float32 (train.py:41), call "
        "13 of "
        "group \"default\"");
}

TEST_CASE("one call more without any routine: the lines of the later calls show it") {
  const Group three{.members = {0, 1, 2}};
  Calls calls;
  calls.finishes(0, three, operation("barrier", 18)).enters(0, three, operation("barrier", 20));
  calls.finishes(1, three, operation("barrier", 20)).finishes(2, three, operation("barrier", 20));
  const Verdict v = hang(calls, 3);
  CHECK(v.ranks == RankSet{0});
  CHECK(v.sentence.find("rank 0 made one call more than the other ranks: barrier (train.py:18), call 1") !=
        std::string::npos);
}

TEST_CASE("a thread that waits does not keep another thread of the rank from a call") {
  const Group all{.name = "0", .members = {0, 1, 2}};
  const Group metrics{.name = "1", .members = {0, 1, 2}};
  const auto by = [](const char* thread, model::CollectiveCall call) {
    call.thread = thread;
    return call;
  };
  Calls calls;
  for (const base::Rank r : all.members) {
    for (int i = 0; i < 3; ++i) {
      calls.finishes(r, metrics, by("metrics", all_reduce(4, 13)));
    }
  }
  calls.enter({0, 2}, metrics, by("metrics", all_reduce(4, 13)));
  calls.enters(1, all, by("MainThread", operation("barrier", 19)));
  const Verdict v = hang(calls, 3);
  CHECK(v.id == "hang.not_entered");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find(
            "rank 1 has not entered all_reduce of 4 float32 (train.py:13 in thread metrics), call 4 of "
            "group \"1\"; ranks 0,2 wait for it") != std::string::npos);
  CHECK(v.sentence.find("; its thread metrics has ended") != std::string::npos);
}

TEST_CASE("a rank that is really absent stays the culprit beside odd lines of the others") {
  // Rank 0 calls from another line at times, and nothing is shifted.
  Calls calls;
  for (const base::Rank r : kRoutineFour.members) {
    for (int i = 0; i < 20; ++i) {
      calls.finishes(r, kRoutineFour, all_reduce(16, r == 0 && i == 12 ? 41 : 30));
    }
  }
  calls.enter({0, 2, 3}, kRoutineFour, all_reduce(16, 30));
  Job job(4);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  job.facts.collectives = calls.facts;
  CHECK(diagnose(job.facts).ranks == RankSet{1});
}

namespace {

// Tensor pairs and pipeline pairs: 0,1 and 4,5; 2,3 and 6,7. Each step: two sums over the pair, one message,
// then a sum over all.
struct Grid {
  Calls calls;
  std::vector<base::Rank> to{0, 1, 2, 3, 4, 5, 6, 7};  // the number of each rank

  Group group(const std::string& name, const std::vector<int>& members) const {
    Group g{.name = name};
    for (const int m : members) {
      g.members.push_back(to[static_cast<size_t>(m)]);
    }
    std::sort(g.members.begin(), g.members.end());
    return g;
  }
  Group tensor(int rank) const {
    return group("tp" + std::to_string(rank / 2), {rank / 2 * 2, rank / 2 * 2 + 1});
  }
  Group pipeline(int rank) const { return group("pp" + std::to_string(rank % 4), {rank % 4, rank % 4 + 4}); }
  Group world() const { return group("world", {0, 1, 2, 3, 4, 5, 6, 7}); }
  base::Rank number(int rank) const { return to[static_cast<size_t>(rank)]; }

  int place(int rank, const Group& g) const {
    return static_cast<int>(std::find(g.members.begin(), g.members.end(), number(rank)) - g.members.begin());
  }
  model::CollectiveCall message(int rank, uint64_t n) const {
    const Group g = pipeline(rank);
    return rank < 4 ? send(place(rank + 4, g), n, 80, 2048) : recv(place(rank - 4, g), n, 83, 2048);
  }

  // A stage that receives does so first.
  void step(int rank, uint64_t n) {
    if (rank >= 4) {
      calls.passes(number(rank), pipeline(rank), message(rank, n));
    }
    for (int i = 0; i < 2; ++i) {
      calls.finishes(number(rank), tensor(rank), all_reduce(2048, 76));
    }
    if (rank < 4) {
      calls.passes(number(rank), pipeline(rank), message(rank, n));
    }
    calls.finishes(number(rank), world(), all_reduce(1, 101));
  }
};

RankSet culprits_of_a_skipped_call(const std::vector<base::Rank>& to, Verdict* verdict = nullptr) {
  Grid g{.to = to};
  for (int rank = 0; rank < 8; ++rank) {
    for (uint64_t n = 1; n <= 10; ++n) {
      g.step(rank, n);
    }
  }
  // Rank 1 leaves out its second sum and waits for the next message.
  g.calls.finishes(g.number(0), g.tensor(0), all_reduce(2048, 76))
      .enters(g.number(0), g.tensor(0), all_reduce(2048, 76));
  g.calls.finishes(g.number(1), g.tensor(1), all_reduce(2048, 76));
  g.calls.passes(g.number(1), g.pipeline(1), g.message(1, 11))
      .message(g.number(1), g.pipeline(1), recv(g.place(5, g.pipeline(1)), 1, 90, 2048));
  for (const int rank : {2, 3}) {
    g.calls.finishes(g.number(rank), g.tensor(rank), all_reduce(2048, 76));
    g.calls.finishes(g.number(rank), g.tensor(rank), all_reduce(2048, 76));
    g.calls.passes(g.number(rank), g.pipeline(rank), g.message(rank, 11));
    g.calls.enters(g.number(rank), g.world(), all_reduce(1, 101));
  }
  g.calls.message(g.number(4), g.pipeline(4), g.message(4, 11));
  g.calls.passes(g.number(5), g.pipeline(5), g.message(5, 11))
      .enters(g.number(5), g.tensor(5), all_reduce(2048, 76));
  for (const int rank : {6, 7}) {
    g.calls.passes(g.number(rank), g.pipeline(rank), g.message(rank, 11));
    g.calls.finishes(g.number(rank), g.tensor(rank), all_reduce(2048, 76));
    g.calls.finishes(g.number(rank), g.tensor(rank), all_reduce(2048, 76));
    g.calls.enters(g.number(rank), g.world(), all_reduce(1, 101));
  }
  const Verdict v = hang(g.calls, 8);
  if (verdict != nullptr) {
    *verdict = v;
  }
  return v.ranks;
}

}  // namespace

TEST_CASE("a circle of waits: those that wait in a collective for a member of the circle are victims") {
  Verdict v;
  CHECK(culprits_of_a_skipped_call({0, 1, 2, 3, 4, 5, 6, 7}, &v) == RankSet{1});
  CHECK(v.id == "hang.mismatch");
  CHECK(v.collective.departure == Departure::skipped);
  CHECK(v.sentence.find("rank 1 left out all_reduce of 2048 float32 (train.py:76)") != std::string::npos);
}

TEST_CASE("other numbers of the ranks change the culprit's number only") {
  std::vector<base::Rank> to(8);
  std::iota(to.begin(), to.end(), 0);
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    std::shuffle(to.begin(), to.end(), random);
    CHECK(culprits_of_a_skipped_call(to) == RankSet{to[1]});
  }
}

TEST_CASE("a circle without a routine accuses nobody who merely waits") {
  // 1 waits for 5, 5 for 4, 4 for 0, 0 for 1: no past.
  Grid g;
  g.calls.enters(0, g.tensor(0), all_reduce(2048, 76));
  g.calls.message(1, g.pipeline(1), recv(1, 3, 83, 2048));
  g.calls.enters(5, g.tensor(5), all_reduce(2048, 76));
  g.calls.message(4, g.pipeline(4), recv(0, 3, 83, 2048));
  const Verdict v = hang(g.calls, 8);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
}

TEST_CASE("new_group: who left it out, and who passed another list") {
  Grid g;
  for (int rank = 0; rank < 8; ++rank) {
    for (uint64_t n = 1; n <= 10; ++n) {
      g.step(rank, n);
    }
  }
  for (int rank = 0; rank < 8; ++rank) {
    if (rank != 5) {
      g.calls.enters(rank, g.world(), operation("new_group", 247));
    }
  }
  g.calls.message(5, g.pipeline(5), g.message(5, 11));
  const Verdict v = hang(g.calls, 8);
  CHECK(v.ranks == RankSet{5});
  CHECK(v.id == "hang.not_entered");
  const auto group_of = [](std::string ranks) {
    model::CollectiveCall call = operation("new_group", 20);
    call.group_ranks = std::move(ranks);
    return call;
  };
  Calls lists;
  lists.past(kRoutineFour, 2)
      .enter({0, 1, 3}, kRoutineFour, group_of("0,1"))
      .enters(2, kRoutineFour, group_of("2,3"));
  Verdict w = hang(lists);
  CHECK(w.id == "hang.mismatch");
  CHECK(w.ranks == RankSet{2});
  CHECK(w.sentence ==
        "hang: rank 2 called new_group of ranks 2,3 (train.py:20) where ranks 0-1,3 called new_group of "
        "ranks 0,1 "
        "(train.py:20), call 3 of group \"default\"");
  Calls halves;
  halves.past(kRoutineFour, 2)
      .enter({0, 1}, kRoutineFour, group_of("0,1"))
      .enter({2, 3}, kRoutineFour, group_of("2,3"));
  w = hang(halves);
  CHECK(w.ranks.empty());
  CHECK(w.sentence.find("with different lists of ranks") != std::string::npos);
  Calls equal;
  equal.past(kRoutineFour, 2).enter({0, 1, 2, 3}, kRoutineFour, group_of("0,1"));
  CHECK(hang(equal).id == "hang.network");
}

TEST_CASE("sizes per peer: what one sends is not what the other expects") {
  const auto exchange = [](std::vector<uint64_t> sent, std::vector<uint64_t> received) {
    model::CollectiveCall call =
        operation("all_to_all", 60, std::accumulate(sent.begin(), sent.end(), uint64_t{0}));
    call.sent = std::move(sent);
    call.received = std::move(received);
    return call;
  };
  const Group three{.members = {0, 1, 2}};
  Calls fits;
  fits.past(three, 2);
  fits.enters(0, three, exchange({1, 2, 3}, {1, 4, 7})).enters(1, three, exchange({4, 5, 6}, {2, 5, 8}));
  fits.enters(2, three, exchange({7, 8, 9}, {3, 6, 9}));
  CHECK(hang(fits, 3).id == "hang.network");
  // Rank 2 sends less than the others expect.
  Calls wrong;
  wrong.past(three, 2);
  wrong.enters(0, three, exchange({1, 2, 3}, {1, 4, 7})).enters(1, three, exchange({4, 5, 6}, {2, 5, 8}));
  wrong.enters(2, three, exchange({6, 7, 9}, {3, 6, 9}));
  Verdict v = hang(wrong, 3);
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence ==
        "hang: rank 2 called all_to_all of 22 float32, 6 to rank 0 (train.py:60) where rank 0 called "
        "all_to_all of 6 "
        "float32, 7 expected from rank 2 (train.py:60), call 3 of group \"default\"");
  // One pair only: either may be wrong.
  Calls pair;
  pair.past(three, 2);
  pair.enters(0, three, exchange({1, 2, 3}, {1, 4, 7})).enters(1, three, exchange({4, 5, 6}, {2, 5, 8}));
  pair.enters(2, three, exchange({6, 8, 9}, {3, 6, 9}));
  v = hang(pair, 3);
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks.empty());
  // Unless one of them has always done what it does now.
  for (const base::Rank other : {0, 1}) {
    const Group two{.name = "pair", .members = {0, 1}};
    Calls routine;
    for (const base::Rank r : two.members) {
      for (int i = 0; i < 20; ++i) {
        routine.finishes(r, two, exchange({8, 8}, {8, 8}));
      }
      std::vector<uint64_t> sent = {8, 8};
      sent[static_cast<size_t>(1 - r)] = r == other ? 12 : 8;
      routine.enters(r, two, exchange(sent, {8, 8}));
    }
    CHECK(hang(routine, 2).ranks == RankSet{other});
  }
  // NCCL gathers tensors of different sizes.
  Calls gather;
  gather.past(three, 2);
  for (const base::Rank r : three.members) {
    model::CollectiveCall call = operation("all_gather", 60, static_cast<uint64_t>(r) + 4);
    call.sent = std::vector<uint64_t>(3, call.count);
    call.received = {4, 5, 6};
    gather.enters(r, three, call);
  }
  CHECK(hang(gather, 3).id == "hang.network");
}

TEST_CASE("what the records prove, and what they do not") {
  const Group tp{.name = "tp", .members = {0, 1}};
  const Group dp{.name = "dp", .members = {1, 2}};
  const auto proved = [](const Calls& calls, const RankSet& gone = {}) {
    return proved_to_stand(calls.facts, gone);
  };
  // Different calls under one number.
  Calls differ;
  differ.past(kRoutinePair, 3).enters(0, kRoutinePair, all_reduce()).enters(1, kRoutinePair, broadcast());
  CHECK(proved(differ) == RankSet{0, 1});
  // One has not come.
  Calls late;
  late.past(kRoutineFour, 3).enter({0, 1, 3}, kRoutineFour, all_reduce());
  CHECK(proved(late).empty());
  CHECK(proved(late, {2}) == RankSet{0, 1, 3});
  // A circle, and a rank that waits for it.
  Calls circle;
  circle.past(tp, 2).past(dp, 2).past(kRoutineFour, 2);
  circle.enters(0, tp, all_reduce()).enters(1, kRoutineFour, all_reduce(8, 50)).enters(2, dp, all_reduce());
  CHECK(proved(circle) == RankSet{0, 1, 2});
  // Another thread of rank 1 may make the call.
  Calls threads = circle;
  model::CollectiveCall other = all_reduce(2, 9);
  other.thread = "metrics";
  threads.finishes(1, {.name = "m", .members = {1}}, other);
  CHECK(proved(threads).empty());
  // A chain: rank 1 waits for rank 2, which computes.
  Calls chain;
  chain.past(tp, 2).past(dp, 2).enters(0, tp, all_reduce()).enters(1, dp, all_reduce());
  CHECK(proved(chain).empty());
  // Asynchronous calls prove nothing.
  Calls launched;
  launched.past(tp, 2).past(dp, 2).past(kRoutineFour, 2);
  launched.enters(0, tp, all_reduce()).enters(1, kRoutineFour, all_reduce(8, 50)).enters(2, dp, all_reduce());
  launched.comm(1, kRoutineFour).calls.back().stage = CallStage::launched;
  CHECK(proved(launched).empty());
}

TEST_CASE("the first call after the loop: who has not come is the culprit, not those who have") {
  for (const bool many : {false, true}) {
    const Group group{.members =
                          many ? std::vector<base::Rank>{0, 1, 2, 3} : std::vector<base::Rank>{0, 1, 2}};
    Calls calls;
    calls.past(group, 20);
    for (const base::Rank r : group.members) {
      if (r != 1) {
        calls.enters(r, group, operation("barrier", 90));
      }
    }
    const auto f = find_call_fault(calls.facts);
    REQUIRE(f);
    CHECK(f->fault == CallFault::not_entered);
    CHECK(f->accused == RankSet{1});
  }
  // One waiting rank of two.
  Calls pair;
  pair.past(kRoutinePair, 20).enters(0, kRoutinePair, operation("barrier", 90));
  CHECK(find_call_fault(pair.facts)->accused == RankSet{1});
}

TEST_CASE("one call more of equal shape, met by the next call of the others") {
  const Group three{.members = {0, 1, 2}};
  Calls calls;
  for (const base::Rank r : three.members) {
    for (int i = 0; i < 24; ++i) {
      calls.finishes(r, three, all_reduce(16, 124));
      if (r == 1 && i == 12) {
        calls.finishes(r, three, all_reduce(16, 127));
      }
    }
  }
  auto& late = calls.comm(1, three);
  late.calls.back().stage = CallStage::called;
  late.done = late.called - 1;
  calls.enter({0, 2}, three, all_reduce(4096, 75));
  const Verdict v = hang(calls, 3);
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("rank 1 had made one call more: all_reduce of 16 float32 (train.py:127), call 14") !=
        std::string::npos);
}

TEST_CASE(
    "one call more of equal shape, of two ranks: the earlier line decides, not the call in which they meet") {
  Calls calls;
  for (const base::Rank r : {0, 1}) {
    steps(calls, r, kRoutinePair, {all_reduce(4194304, 75)}, 3);
    for (int i = 0; i < 24; ++i) {
      calls.finishes(r, kRoutinePair, all_reduce(16, 125));
      if (r == 1 && i == 12) {
        calls.finishes(r, kRoutinePair, all_reduce(16, 128));
      }
    }
  }
  auto& late = calls.comm(1, kRoutinePair);
  late.calls.back().stage = CallStage::called;
  late.done = late.called - 1;
  calls.enters(0, kRoutinePair, all_reduce(4194304, 75));
  const Verdict v = hang(calls, 2);
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("(train.py:128), call 17") != std::string::npos);
}

TEST_CASE(
    "an older call that both ranks have made is no departure, though only one still knows its routine") {
  const Group world{.name = "world", .members = {0, 1}};
  const Group tp{.name = "tp", .members = {0, 1}};
  for (const int known : {1, 4, 8}) {  // steps before that rank 1 still knows
    Calls calls;
    for (const base::Rank r : {0, 1}) {
      for (int step = r == 1 ? 9 - known : 0; step < 20; ++step) {
        steps(calls, r, tp, {all_reduce(1048576, 76)}, 16);
        if (step == 10) {
          calls.finishes(r, world, all_reduce(1, 200));
        }
        calls.finishes(r, world, broadcast());
      }
    }
    // Rank 1 knows fewer calls, but has made as many.
    for (const Group& group : {world, tp}) {
      auto& c = calls.comm(1, group);
      const uint64_t missing = calls.comm(0, group).called - c.called;
      c.called = c.launched = c.started = c.done = calls.comm(0, group).called;
      for (auto& call : c.calls) {
        call.sequence += missing;
      }
      for (auto& lane : calls.facts.of(1, c.calls.empty() ? 0 : calls.facts.ranks[1].pid).lanes) {
        for (size_t i = 0; i < lane.order.size(); ++i) {
          const auto& kind = lane.kinds[static_cast<size_t>(lane.order[i])];
          lane.numbers[i] += kind.communicator == c.id ? missing : 0;
        }
      }
    }
    steps(calls, 0, tp, {all_reduce(1048576, 76)}, 16);
    calls.enters(0, world, all_reduce(1, 200));
    const auto f = find_call_fault(calls.facts);
    REQUIRE(f);
    CHECK(f->fault == CallFault::not_entered);
    CHECK(f->accused == RankSet{1});
  }
}
