// Different calls that ended: silent mismatches, and healthy jobs without one.
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/collectives/mismatch.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/wording.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallSource;
using model::Departure;
using model::RankSet;
using model::Verdict;

namespace {

const Group kMeetingPair{.members = {0, 1}};
const Group kMeetingFour{.members = {0, 1, 2, 3}};
const Group kMeetingNccl{.members = {0, 1}, .source = CallSource::nccl};

// The calls of one rank: `step` again and again, all of which have ended.
void ended_steps(Calls& calls, base::Rank rank, const Group& group,
                 const std::vector<model::CollectiveCall>& step, int times) {
  for (int i = 0; i < times; ++i) {
    for (const model::CollectiveCall& call : step) {
      calls.finishes(rank, group, call);
    }
  }
}

const std::vector<model::CollectiveCall> kMeetingStep = {all_reduce(1049600, 40), all_reduce(3148800, 40)};

}  // namespace

TEST_CASE("different calls that ended: the job goes on with wrong data") {
  Calls calls;
  for (const base::Rank r : kMeetingPair.members) {
    const Group nccl = kMeetingNccl;
    ended_steps(calls, r, nccl, kMeetingStep, 10);
    calls.finishes(r, nccl, r == 1 ? broadcast(0, 191, 1049600) : kMeetingStep[0]);
    ended_steps(calls, r, nccl, {kMeetingStep[1], kMeetingStep[0]}, 5);
  }
  const auto f = find_silent_mismatch(calls.facts);
  REQUIRE(f);
  CHECK((f->fault == CallFault::operation && f->collective.sequence == 21));
  CHECK(f->accused == RankSet{1});
  CHECK(f->collective.departure != Departure::none);
  // NCCL hangs in a later call, which all have entered.
  const Verdict v = hang(calls.enter(kMeetingPair.members, kMeetingNccl, kMeetingStep[0]), 2);
  CHECK(v.id == "hang.mismatch");
  CHECK((v.ranks == RankSet{1} && v.collective.sequence == 21));
}

TEST_CASE("healthy jobs have no silent mismatch") {
  // Uneven sizes where they are legal, roots, several groups, a call that is still open.
  Calls calls;
  const Group tp{.name = "tp", .members = {0, 1}};
  for (const base::Rank r : kMeetingFour.members) {
    for (int i = 0; i < 30; ++i) {
      const auto uneven = static_cast<uint64_t>(r * 7 + i);
      calls.finishes(r, kMeetingFour, operation("all_to_all", 60, uneven));
      calls.finishes(r, kMeetingFour, operation("all_gather", 61, uneven + 1));
      calls.finishes(r, kMeetingFour, operation("reduce_scatter", 62, uneven + 1));
      calls.finishes(r, kMeetingFour, broadcast(i % 4, r == 0 ? 63 : 64));
      if (r < 2) {
        calls.finishes(r, tp, all_reduce(static_cast<uint64_t>(i) + 1));
      }
    }
  }
  calls.enters(0, kMeetingFour, all_reduce(8)).enters(1, kMeetingFour, all_reduce(9));
  CHECK_FALSE(find_silent_mismatch(calls.facts));
  // A group that two threads use has no promised order.
  Calls threads;
  for (const base::Rank r : kMeetingPair.members) {
    for (int i = 0; i < 10; ++i) {
      model::CollectiveCall call = (i + r) % 2 == 0 ? all_reduce(8) : all_reduce(16);
      call.thread = (i + r) % 2 == 0 ? "MainThread" : "metrics";
      threads.finishes(r, kMeetingPair, call);
    }
  }
  CHECK_FALSE(find_silent_mismatch(threads.facts));
}

namespace {

// A healthy job of four ranks: tensor and data parallel pairs, experts with uneven splits, objects, coalesced
// sends, an evaluation, a thread of its own; again and again, with sizes that change from step to step.
class Training {
 public:
  static constexpr size_t kKept = 256;  // calls of a rank that the record keeps

  // Calls `from` to `to` of the rank. `odd`: the number of the call that this rank alone makes otherwise.
  void record(Calls& calls, base::Rank rank, size_t from, size_t to, size_t odd) const {
    std::map<std::string, std::pair<Group, uint64_t>> called;
    for (size_t i = 0; i < kPeriod; ++i) {
      auto [group, call] = made(rank, i);
      auto& [known, count] = called[group.name];
      known = std::move(group);
      count += call.peer >= 0 ? 0 : from / kPeriod + (i < from % kPeriod ? 1 : 0);
    }
    for (const auto& [name, of_group] : called) {
      calls.comm(rank, of_group.first).called = of_group.second;
    }
    for (size_t i = from; i < to; ++i) {
      auto [group, call] = made(rank, i);
      if (i == odd) {
        call = broadcast(0, 99, call.count);
        call.thread = made(rank, i).second.thread;
      }
      if (call.peer >= 0) {
        call.sequence = i;
        calls.passes(rank, group, call);
      } else {
        calls.finishes(rank, group, std::move(call));
      }
    }
  }

 private:
  static constexpr size_t kStep = 10;
  static constexpr size_t kPeriod = 8 * kStep + 3;  // eight steps and an evaluation

  static Group group(const std::string& name, base::Rank rank) {
    const base::Rank pair = rank / 2 * 2;
    return name == "tp"   ? Group{.name = fmt::format("tp{}", pair), .members = {pair, pair + 1}}
           : name == "dp" ? Group{.name = fmt::format("dp{}", rank % 2), .members = {rank % 2, rank % 2 + 2}}
                          : Group{.name = name, .members = {0, 1, 2, 3}};
  }

  static std::pair<Group, model::CollectiveCall> made(base::Rank rank, size_t number) {
    const auto step = static_cast<uint64_t>(number / kStep);
    const auto uneven = static_cast<uint64_t>(rank) * 7 + step % 2 + 1;
    const size_t at = number % kPeriod;
    const auto in = [&](const char* name, model::CollectiveCall call) {
      return std::pair(group(name, rank), std::move(call));
    };
    if (at >= 8 * kStep) {
      return at == 8 * kStep       ? in("world", operation("barrier", 70))
             : at == 8 * kStep + 1 ? in("world", operation("gather", 71, uneven))
                                   : in("world", broadcast(static_cast<int>(step % 4), rank == 0 ? 72 : 73));
    }
    model::CollectiveCall call;
    switch (at % kStep) {
      case 0:
        return in("tp", all_reduce(step % 2 + 1, 40));
      case 1:
        call = operation("all_to_all", 41, uneven);
        call.sent = {uneven, 1, 2, 3};
        call.received = {static_cast<uint64_t>(rank), 4, 5, uneven};
        return in("world", call);
      case 2:
        return in("world", operation("all_gather", 42, uneven));
      case 3:
        return in("world", operation("reduce_scatter", 43, uneven));
      case 4:
        return in("world", rank < 2 ? send(rank + 2, 0, 44) : recv(rank - 2, 0, 45));
      case 5:
        return in("world", rank < 2 ? send(rank + 2, 0, 44, 16) : recv(rank - 2, 0, 45, 16));
      case 6:
        return in("world", operation("scatter_object_list", 46, uneven));
      case 7:
        return in("dp", all_reduce(1049600, 47));
      case 8:
        call = all_reduce(3148800, 47);
        return in("dp", call);
      default:
        call = all_reduce(1, 48);
        call.thread = "metrics";
        return in("metrics", call);
    }
  }
};

// Looks at the calls of four ranks from `from` to `to`. Returns the number of looks with a mismatch.
size_t mismatches_seen(size_t from, size_t to, size_t odd) {
  const Training training;
  std::mt19937 random(11);
  size_t seen = 0;
  for (size_t at = from; at < to; at += Training::kKept) {
    Calls calls;
    for (const base::Rank rank : kMeetingFour.members) {
      const size_t end = at + Training::kKept + random() % 64;  // some ranks are ahead
      training.record(calls, rank, end - Training::kKept, end, rank == 2 ? odd : SIZE_MAX);
    }
    seen += find_silent_mismatch(calls.facts) ? 1 : 0;
  }
  return seen;
}

}  // namespace

TEST_CASE("a million calls of a healthy job: no silent mismatch; one other call is seen") {
  CHECK(mismatches_seen(0, 250'000, SIZE_MAX) == 0);
  CHECK(mismatches_seen(8000, 9000, 8502) > 0);
}

TEST_CASE("lists of objects must be equally long on all ranks of a broadcast") {
  Calls calls;
  for (const base::Rank r : kMeetingFour.members) {
    calls.enters(r, kMeetingFour, operation("broadcast_object_list", 46, r == 2 ? 2 : 3));
  }
  const auto found = find_call_fault(calls.facts);
  REQUIRE(found);
  CHECK(found->fault == CallFault::size);
}

TEST_CASE("different reductions hang no rank, and make wrong data") {
  Calls calls;
  auto largest = all_reduce();
  largest.reduce = "max";
  auto sum = all_reduce();
  sum.reduce = "sum";
  for (const base::Rank r : kMeetingFour.members) {
    ended_steps(calls, r, kMeetingFour, {sum}, 10);
    calls.finishes(r, kMeetingFour, r == 2 ? largest : sum);
    ended_steps(calls, r, kMeetingFour, {sum}, 3);
  }
  const auto f = find_silent_mismatch(calls.facts);
  REQUIRE(f);
  CHECK((f->accused == RankSet{2} && f->collective.sequence == 11));
  CHECK(fault_text(*f, [](const RankSet& ranks) { return rank_words(ranks); })
            .starts_with("rank 2 called all_reduce with max of 4096 float32 (train.py:33) where ranks 0-1,3 "
                         "called all_reduce of 4096"));
  // Not the cause of a hang.
  calls.enters(2, kMeetingFour, largest);
  for (const base::Rank r : {0, 1}) {
    calls.enters(r, kMeetingFour, sum);
  }
  const auto open = find_call_fault(calls.facts);
  REQUIRE(open);
  CHECK((open->fault == CallFault::not_entered && open->accused == RankSet{3}));
}

TEST_CASE("a job that ends well after a silent mismatch has it as its verdict") {
  Calls calls;
  for (const base::Rank r : kMeetingFour.members) {
    ended_steps(calls, r, kMeetingFour, kMeetingStep, 10);
    calls.finishes(r, kMeetingFour, r == 1 ? broadcast(0, 191, 1049600) : kMeetingStep[0]);
    ended_steps(calls, r, kMeetingFour, {kMeetingStep[1], kMeetingStep[0]}, 5);
  }
  Job job(4);
  job.ended(0);
  CHECK(diagnose(job.facts).kind == model::VerdictKind::none);
  job.facts.mismatch = calls.facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "mismatch.silent");
  CHECK(v.kind == model::VerdictKind::mismatch);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.collective.sequence == 21);
  CHECK(v.sentence.starts_with("mismatch: the job went on with wrong data: rank 1 called broadcast"));
  // Who interrupts a job reads why its loss is wrong.
  job.facts.run.outcome = model::RunOutcome::interrupted;
  const Verdict cut = diagnose(job.facts);
  CHECK(cut.kind == model::VerdictKind::interrupted);
  CHECK(cut.ranks == RankSet{1});
  CHECK(cut.sentence.find("while the job went on with wrong data: rank 1 called broadcast") !=
        std::string::npos);
  CHECK(std::none_of(cut.evidence.begin(), cut.evidence.end(),
                     [](const std::string& line) { return line.find("wrong data") != std::string::npos; }));
  // Later failures keep their own verdict.
  job.ended(exited(1));
  const Verdict failed = diagnose(job.facts);
  CHECK(failed.kind == model::VerdictKind::exit);
  CHECK(std::any_of(failed.evidence.begin(), failed.evidence.end(),
                    [](const std::string& line) { return line.find("wrong data") != std::string::npos; }));
}

TEST_CASE("NCCL: a difference that has left the records is seen by the hash of the calls") {
  const auto made = [](base::Rank odd, size_t ranks) {
    Group group{.members = {}, .source = CallSource::nccl};
    for (base::Rank r = 0; r < static_cast<base::Rank>(ranks); ++r) {
      group.members.push_back(r);
    }
    Calls calls;
    for (const base::Rank r : group.members) {
      for (uint64_t i = 1; i <= 12; ++i) {
        auto call = all_reduce();
        call.history = i * 1000 + (r == odd ? 1 : 0);
        calls.finishes(r, group, call);
      }
    }
    return calls.facts;
  };
  CHECK_FALSE(find_silent_mismatch(made(-1, 4)));
  const auto f = find_silent_mismatch(made(2, 4));
  REQUIRE(f);
  CHECK((f->lost && f->accused == RankSet{2} && f->collective.sequence == 5));
  CHECK(fault_text(*f, [](const RankSet& ranks) { return rank_words(ranks); }) ==
        "rank 2 made another call than ranks 0-1,3 before call 5 of group \"default\"; the records have lost "
        "that "
        "call");
  // A call that the records still have is named, although the calls that are kept one by one are later.
  model::CollectiveFacts known = made(2, 4);
  known.ranks[2].lanes[0].kinds.push_back(
      {.communicator = known.ranks[2].communicators[0].id, .call = all_reduce(4096, 33, "int32")});
  known.ranks[2].lanes[0].order[1] = 1;
  const auto named = find_silent_mismatch(known);
  REQUIRE(named);
  CHECK((!named->lost && named->fault == CallFault::type && named->collective.sequence == 2));
  const auto tie = find_silent_mismatch(made(1, 2));
  REQUIRE(tie);
  CHECK((tie->lost && tie->tie && tie->accused.empty()));
  // Ranks that have no call in common say nothing; nor does a hash that is not known.
  model::CollectiveFacts apart = made(1, 2);
  apart.ranks[0].communicators[0].calls.resize(2);
  apart.ranks[1].communicators[0].calls.erase(apart.ranks[1].communicators[0].calls.begin(),
                                              apart.ranks[1].communicators[0].calls.begin() + 4);
  CHECK_FALSE(find_silent_mismatch(apart));
  model::CollectiveFacts unknown = made(1, 2);
  for (auto& call : unknown.ranks[1].communicators[0].calls) {
    call.history = 0;
  }
  CHECK_FALSE(find_silent_mismatch(unknown));
}

namespace {

// Four ranks make a group each, the last call that all of them make.
model::CollectiveFacts grouped_as(const std::vector<std::string>& lists) {
  const Group world{.members = {0, 1, 2, 3}};
  Calls calls;
  for (const base::Rank r : world.members) {
    auto call = operation("new_group", 6);
    call.group_ranks = lists[static_cast<size_t>(r)];
    calls.finishes(r, world, all_reduce()).finishes(r, world, call);
  }
  return calls.facts;
}

}  // namespace

TEST_CASE("groups that ended well with a member that passed another list") {
  const auto f = find_silent_mismatch(grouped_as({"2,3", "2,3", "2,3", "1,3"}));
  REQUIRE(f);
  CHECK((f->fault == CallFault::members && f->accused == RankSet{3} && f->collective.sequence == 2));
  // The member that is left out departs as well.
  const auto less = find_silent_mismatch(grouped_as({"0,1,2,3", "0,1,2,3", "0,1,3", "0,1,2,3"}));
  REQUIRE(less);
  CHECK(less->accused == RankSet{2});
  const auto tie = find_silent_mismatch(grouped_as({"0,1", "0,2", "0,1", "0,2"}));
  REQUIRE(tie);
  CHECK((tie->tie && tie->accused.empty()));
}

TEST_CASE("lists that fit: each rank passes that of its own group, or a rank is in no list") {
  CHECK_FALSE(find_silent_mismatch(grouped_as({"0,1", "0,1", "2,3", "2,3"})));
  CHECK_FALSE(find_silent_mismatch(grouped_as({"0", "1", "2", "3"})));
  CHECK_FALSE(find_silent_mismatch(grouped_as({"1,2", "2,3", "2,3", "2,3"})));
  CHECK_FALSE(find_silent_mismatch(grouped_as({"", "0,1,2,3", "", "0,1,2,3"})));  // "": all, or unknown
}
