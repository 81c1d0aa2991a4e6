#include "launcher/collect/ledger_findings.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;
namespace base = xpurun::base;
namespace wire = xpurun::wire;

namespace {

constexpr auto kAllReduce = static_cast<uint16_t>(wire::Api::ncclAllReduce);
constexpr auto kAllGather = static_cast<uint16_t>(wire::Api::ncclAllGather);

constexpr uint64_t kLaunched = UINT64_MAX;

struct State {
  uint64_t called;
  uint64_t launched;
  uint64_t done;
  uint16_t last_api = kAllReduce;
  uint64_t marked = kLaunched;
};

CommTotals comm(uint64_t identity, int rank, const State& s) {
  CommTotals c;
  c.state = static_cast<uint32_t>(wire::CommState::live);
  c.identity = identity;
  c.rank = rank;
  c.nranks = 4;
  c.called = s.called;
  c.launched = s.launched;
  c.done = s.done;
  c.marked = s.marked == kLaunched ? s.launched : s.marked;
  for (uint64_t n = s.called > 8 ? s.called - 7 : 1; n <= s.called; ++n) {
    c.last.push_back({n, n == s.called ? s.last_api : kAllReduce, 9, 0, -1, 4096});
  }
  return c;
}

std::vector<RankTiming> ranks(const std::vector<State>& states, uint64_t identity = 0xabc) {
  std::vector<RankTiming> out;
  for (size_t i = 0; i < states.size(); ++i) {
    RankTiming t;
    t.rank = static_cast<base::Rank>(i);
    t.comms = {comm(identity, static_cast<int>(i), states[i])};
    out.push_back(std::move(t));
  }
  return out;
}

using Ranks = std::vector<base::Rank>;

}  // namespace

TEST_CASE("ranks at rest give no finding") {
  CHECK(ledger_findings(ranks({{812, 812, 812}, {812, 812, 812}})).empty());
  CHECK(ledger_findings({}).empty());
}

TEST_CASE("ranks that have not called a collective are named") {
  const auto found =
      ledger_findings(ranks({{812, 812, 811}, {812, 812, 811}, {811, 811, 811}, {812, 812, 811}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "not_called");
  CHECK(found[0].ranks == Ranks{2});
  CHECK(found[0].sequence == 812);
  CHECK(found[0].size == 4);
  CHECK(found[0].sentence ==
        "rank 2 has not called collective 812 of communicator 0000000000000abc "
        "(AllReduce of 4096 bf16), which others have");
}

TEST_CASE("rank 0 can be named like any other rank") {
  const auto found = ledger_findings(ranks({{5, 5, 5}, {7, 7, 5}, {6, 6, 5}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == Ranks{0, 2});
  CHECK(found[0].sequence == 6);
}

TEST_CASE("ranks that called a different operation are named") {
  const auto found = ledger_findings(ranks({{9, 9, 8}, {9, 9, 8, kAllGather}, {9, 9, 8}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "mismatch");
  CHECK(found[0].ranks == Ranks{1});
  CHECK(found[0].sequence == 9);
}

TEST_CASE("called and not launched; launched and not done") {
  auto found = ledger_findings(ranks({{9, 9, 8}, {9, 8, 8}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "not_launched");
  CHECK(found[0].ranks == Ranks{1});
  found = ledger_findings(ranks({{9, 9, 9}, {9, 9, 8}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "not_done");
  CHECK(found[0].ranks == Ranks{1});
}

TEST_CASE("collectives after the last completion event give no finding") {
  CHECK(ledger_findings(ranks({{9, 9, 7, kAllReduce, 7}, {9, 9, 9}})).empty());
  auto found = ledger_findings(ranks({{9, 9, 6, kAllReduce, 7}, {9, 9, 9}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "not_done");
  CHECK(found[0].ranks == Ranks{0});
  found =
      ledger_findings(ranks({{9, 9, 8, kAllReduce, 8}, {9, 9, 8, kAllGather, 8}, {9, 9, 8, kAllReduce, 8}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "mismatch");
}

TEST_CASE("incomparable counters are not compared") {
  auto some = ranks({{812, 812, 811}, {811, 811, 811}});
  some[1].comms[0].flags = wire::kCommMissedCalls;
  const auto found = ledger_findings(some);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == "not_done");
  CHECK(found[0].ranks == Ranks{0});
}

TEST_CASE("one finding per communicator, the most severe first") {
  auto some = ranks({{5, 5, 4}, {5, 5, 4}});
  for (auto& t : some) {
    t.comms.push_back(comm(0xdef, t.rank, {t.rank == 0 ? uint64_t{3} : uint64_t{4}, 3, 3}));
    t.comms.back().name = "tp";
  }
  const auto found = ledger_findings(some);
  REQUIRE(found.size() == 2);
  CHECK(found[0].communicator == "\"tp\"");
  CHECK(found[0].ranks == Ranks{0});
  CHECK(found[1].kind == "not_done");
}
