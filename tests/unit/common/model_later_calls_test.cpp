// add_later_calls and add_unseen_ranks: complete the dump at a death with calls that the other ranks made a
// moment later.
#include "common/model/collectives.h"

#include <doctest/doctest.h>

using namespace xpurun::model;

namespace {

CollectiveFacts called(std::vector<uint64_t> newest_of_rank, std::string id = "world") {
  CollectiveFacts facts;
  for (size_t i = 0; i < newest_of_rank.size(); ++i) {
    Communicator c{.source = CallSource::torch, .id = id, .rank = static_cast<int>(i), .size = 3};
    for (uint64_t sequence = 1; sequence <= newest_of_rank[i]; ++sequence) {
      c.calls.push_back({.sequence = sequence, .op = "all_reduce", .count = 100 * (i + 1)});
    }
    c.called = newest_of_rank[i];
    facts.ranks.push_back(
        {.rank = static_cast<int>(i), .pid = 100 + static_cast<int>(i), .communicators = {c}});
  }
  return facts;
}

}  // namespace

TEST_CASE("calls entered after the dump are added, up to the newest call of the dump") {
  CollectiveFacts facts = called({3, 4, 4});
  add_later_calls(facts, called({6, 4, 5}));
  const Communicator& late = facts.ranks[0].communicators[0];
  CHECK(late.called == 4);
  REQUIRE(late.calls.size() == 4);
  CHECK((late.calls.back().sequence == 4 && late.calls.back().count == 100));
  CHECK(facts.ranks[2].communicators[0].calls.size() == 4);
}

TEST_CASE("calls of another communicator or process, or with a gap, are not added") {
  for (CollectiveFacts later : {called({4, 4, 4}, "other"), called({}), CollectiveFacts{}}) {
    CollectiveFacts facts = called({3, 4, 4});
    add_later_calls(facts, later);
    CHECK(facts.ranks[0].communicators[0].called == 3);
  }
  CollectiveFacts facts = called({2, 4, 4});
  CollectiveFacts later = called({4, 4, 4});
  later.ranks[0].communicators[0].calls.erase(later.ranks[0].communicators[0].calls.begin() + 2);
  add_later_calls(facts, later);
  CHECK(facts.ranks[0].communicators[0].calls.size() == 2);
}

TEST_CASE("ranks that the dump does not have are added up to its newest call, which they have not finished") {
  CollectiveFacts facts = called({3, 4});
  CollectiveFacts later = called({9, 9, 6, 2});
  for (RankCollectives& rank : later.ranks) {
    Communicator& c = rank.communicators[0];
    c.launched = c.started = c.done = c.called;
    for (CollectiveCall& call : c.calls) {
      call.stage = CallStage::done;
    }
  }
  add_unseen_ranks(facts, later);
  REQUIRE(facts.ranks.size() == 4);
  CHECK(facts.ranks[0].communicators[0].called == 3);
  const Communicator& ahead = facts.ranks[2].communicators[0];
  CHECK((ahead.called == 4 && ahead.launched == 4 && ahead.started == 4 && ahead.done == 3));
  REQUIRE(ahead.calls.size() == 4);
  CHECK((ahead.calls[2].stage == CallStage::done && ahead.calls[3].stage == CallStage::called));
  CHECK((ahead.calls[3].sequence == 4 && ahead.calls[3].count == 300));
  const Communicator& behind = facts.ranks[3].communicators[0];
  CHECK((behind.called == 2 && behind.done == 2 && behind.calls.size() == 2));
}

TEST_CASE("ranks without a communicator of the dump, or with missed calls, are not added") {
  CollectiveFacts facts = called({3, 4});
  CollectiveFacts missed = called({4, 4, 4});
  missed.ranks[2].communicators[0].comparable = false;
  for (const CollectiveFacts& later : {called({4, 4, 4}, "other"), missed, CollectiveFacts{}}) {
    add_unseen_ranks(facts, later);
    CHECK(facts.ranks.size() == 2);
  }
}
