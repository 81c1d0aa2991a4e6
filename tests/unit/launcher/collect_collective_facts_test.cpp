#include "launcher/collect/calls/collective_facts.h"
#include "report/diagnosis/collectives/analysis.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;
namespace base = xpurun::base;
namespace model = xpurun::model;
namespace wire = xpurun::wire;
using xpurun::report::CallFault;
using xpurun::report::find_call_fault;

namespace {

constexpr auto kAllReduce = static_cast<uint16_t>(wire::Api::ncclAllReduce);
constexpr auto kAllGather = static_cast<uint16_t>(wire::Api::ncclAllGather);
constexpr auto kBroadcast = static_cast<uint16_t>(wire::Api::ncclBroadcast);
constexpr uint8_t kBfloat16 = 9;
constexpr base::MonoNs kFactsTime = 60'000'000'000;
constexpr uint64_t kCalled = 50'000'000'000;

constexpr uint64_t kLaunched = UINT64_MAX;

struct State {
  uint64_t called;
  uint64_t launched;
  uint64_t done;
  uint16_t last_api = kAllReduce;
  uint64_t marked = kLaunched;
};

CommTotals comm(uint64_t identity, int rank, int size, const State& s) {
  CommTotals c;
  c.state = static_cast<uint32_t>(wire::CommState::live);
  c.identity = identity;
  c.rank = rank;
  c.nranks = size;
  c.called = s.called;
  c.launched = s.launched;
  c.done = s.done;
  c.marked = s.marked == kLaunched ? s.launched : s.marked;
  for (uint64_t n = s.called > 8 ? s.called - 7 : 1; n <= s.called; ++n) {
    c.last.push_back({n, n == s.called ? s.last_api : kAllReduce, kBfloat16, 0, 0, 4096, kCalled});
  }
  return c;
}

std::vector<RankTiming> ranks(const std::vector<State>& states, uint64_t identity = 0xabc) {
  std::vector<RankTiming> out;
  for (size_t i = 0; i < states.size(); ++i) {
    RankTiming t;
    t.rank = static_cast<base::Rank>(i);
    t.comms = {comm(identity, static_cast<int>(i), static_cast<int>(states.size()), states[i])};
    out.push_back(std::move(t));
  }
  return out;
}

auto fault_of(const std::vector<RankTiming>& timing) {
  return find_call_fault(collective_facts(timing, kFactsTime));
}

}  // namespace

TEST_CASE("the words of a call are torch's") {
  auto timing = ranks({{9, 9, 8, kBroadcast}, {9, 8, 8}});
  timing[0].comms[0].name = "tp";
  timing[0].comms[0].started = 9;
  const model::CollectiveFacts facts = collective_facts(timing, kFactsTime);
  REQUIRE(facts.ranks.size() == 2);
  const model::Communicator& c = facts.ranks[0].communicators.at(0);
  CHECK(c.source == model::CallSource::nccl);
  CHECK(c.id == "0000000000000abc");
  CHECK(c.name == "tp");
  CHECK(c.members == std::vector<base::Rank>{0, 1});
  CHECK(c.done_known);
  CHECK(c.comparable);
  const model::CollectiveCall& last = c.calls.back();
  CHECK(last.op == "broadcast");
  CHECK(last.root == 0);
  CHECK(last.reduce.empty());
  CHECK(last.dtype == "bfloat16");
  CHECK(last.count == 4096);
  CHECK(last.stage == model::CallStage::started);
  CHECK(last.age_s == doctest::Approx(10));
  const model::CollectiveCall& other = facts.ranks[1].communicators.at(0).calls.back();
  CHECK(other.op == "all_reduce");
  CHECK(other.reduce == "sum");
  CHECK(other.root == -1);
  CHECK(other.stage == model::CallStage::called);
  CHECK(c.calls.front().stage == model::CallStage::done);
}

TEST_CASE("ranks without communicators, and processes that are no ranks, are omitted") {
  auto timing = ranks({{1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
  timing[0].comms[0].state = static_cast<uint32_t>(wire::CommState::destroyed);
  timing[1].rank = base::kNoRank;
  const model::CollectiveFacts facts = collective_facts(timing, kFactsTime);
  REQUIRE(facts.ranks.size() == 1);
  CHECK(facts.ranks[0].rank == 2);
  CHECK(facts.ranks[0].communicators[0].members.empty());  // not all are known
}

TEST_CASE("a hang in the ledgers") {
  CHECK_FALSE(fault_of({}));
  CHECK_FALSE(fault_of(ranks({{812, 812, 812}, {812, 812, 812}})));
  auto f = fault_of(ranks({{812, 812, 811}, {812, 812, 811}, {811, 811, 811}, {812, 812, 811}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::not_entered);
  CHECK(f->accused == model::RankSet{2});
  CHECK(f->collective.sequence == 812);
  // Rank 0 is as suspect as any.
  f = fault_of(ranks({{5, 5, 5}, {7, 7, 5}, {6, 6, 6}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::not_entered);
  CHECK(f->accused.contains(0));
  f = fault_of(ranks({{9, 9, 8}, {9, 9, 8, kAllGather}, {9, 9, 8}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::operation);
  CHECK(f->accused == model::RankSet{1});
  CHECK(f->collective.sequence == 9);
  f = fault_of(ranks({{9, 9, 8}, {9, 8, 8}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::not_launched);
  CHECK(f->accused == model::RankSet{1});
  f = fault_of(ranks({{9, 9, 9}, {9, 9, 8}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::not_finished);
  CHECK(f->accused == model::RankSet{1});
}

TEST_CASE("after the last completion event the end of calls is unknown") {
  CHECK_FALSE(fault_of(ranks({{9, 9, 7, kAllReduce, 7}, {9, 9, 9}})));
  auto f = fault_of(ranks({{9, 9, 6, kAllReduce, 7}, {9, 9, 9}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::not_finished);
  CHECK(f->accused == model::RankSet{0});
  f = fault_of(ranks({{9, 9, 8, kAllReduce, 8}, {9, 9, 8, kAllGather, 8}, {9, 9, 8, kAllReduce, 8}}));
  REQUIRE(f);
  CHECK(f->fault == CallFault::operation);
}

TEST_CASE("incomparable counters are not compared") {
  auto some = ranks({{812, 812, 811}, {811, 811, 811}});
  some[1].comms[0].flags = wire::kCommMissedCalls;
  const auto f = fault_of(some);
  REQUIRE(f);
  CHECK(f->fault == CallFault::all_entered);
  CHECK_FALSE(f->complete);
  CHECK(f->accused.empty());
}
