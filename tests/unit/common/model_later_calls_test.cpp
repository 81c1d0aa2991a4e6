// add_later_calls: completes the dump at a death with calls that the other ranks made a moment later.
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
