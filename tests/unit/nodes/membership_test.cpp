// Who is known, who lives and who is elected, on a clock of the test's.
#include "launcher/nodes/agent/protocol/membership.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::nodes;
using base::s_to_ns;

namespace {

constexpr base::MonoNs kStart = 1'000'000'000'000;

base::MonoNs at(double seconds) {
  return kStart + s_to_ns(seconds);
}

// Upper 32 bits: another supervisor.
constexpr uint64_t kOther = uint64_t{1} << 32;

NodeState state(int node_rank, std::vector<base::Rank> ranks, bool eligible = true) {
  return {.node_rank = node_rank, .host = "h", .expected = std::move(ranks), .eligible = eligible};
}

Self self(int node_rank, int nodes = 0, int world_size = 0) {
  return {.node = "me", .instance = 1, .node_rank = node_rank, .nodes = nodes, .world_size = world_size};
}

// A member that is connected and has said what it is.
Membership joined(const Self& me, std::vector<base::Rank> ranks) {
  Membership m(me, kStart);
  m.connected(kStart);
  m.set_own(state(me.node_rank, std::move(ranks)), kStart);
  return m;
}

std::string elected(Membership& m, double seconds) {
  m.update(at(seconds));
  const Member* chosen = m.elected(at(seconds));
  return chosen == nullptr ? "" : chosen->node;
}

}  // namespace

TEST_CASE("a node listens before it can be elected, unless it knows all nodes") {
  Membership m = joined(self(0), {0});
  CHECK(elected(m, 2.9).empty());
  CHECK(elected(m, 3) == "me");
  Membership complete = joined(self(0, 2), {0});
  CHECK(elected(complete, 1).empty());
  CHECK(complete.take("b", 2, state(1, {1}), at(1)));
  CHECK(elected(complete, 1) == "me");
  complete.disconnected();
  CHECK(elected(complete, 1) == "b");
}

TEST_CASE("the smallest living node rank is elected, and takes over after ten seconds or at last words") {
  Membership m = joined(self(2), {2});
  m.take("a", 10, state(0, {0}), at(1));
  m.take("b", 11, state(1, {1}), at(1));
  CHECK(elected(m, 5) == "a");
  m.take("b", 11, state(1, {1}), at(9));
  CHECK(elected(m, 10.9) == "a");
  CHECK(elected(m, 11) == "b");
  CHECK(m.living(at(11)) == 2);
  NodeState last = state(1, {1});
  last.state.phase = launcher::NodePhase::ended;
  m.take("b", 11, last, at(12));
  CHECK(elected(m, 12) == "me");
  // A node that comes back is elected again.
  m.take("a", 10, state(0, {0}), at(13));
  CHECK(elected(m, 13) == "a");
  // It says itself that it does not hear the others yet.
  m.take("a", 10, state(0, {0}, false), at(14));
  CHECK(elected(m, 14) == "me");
}

TEST_CASE("nobody is elected in the moment in which a node of a smaller rank begins to listen") {
  Membership m = joined(self(1), {1});
  CHECK(elected(m, 3) == "me");
  CHECK(m.take("a", 10, state(0, {0}, false), at(5)));
  CHECK(elected(m, 5).empty());
  CHECK(m.take("a", 10, state(0, {0}, true), at(8)));
  CHECK(elected(m, 8) == "a");
  // A node that never begins is passed over.
  Membership patient = joined(self(1), {1});
  for (const double seconds : {0, 4, 8}) {
    CHECK(patient.take("a", 10, state(0, {0}, false), at(seconds)));
  }
  CHECK(elected(patient, 5.9).empty());
  CHECK(elected(patient, 8) == "me");
}

TEST_CASE("a name, a node rank and a rank belong to one connection as long as that lives") {
  Membership m = joined(self(0, 4, 8), {0, 1});
  CHECK(m.take("b", 2, state(1, {2, 3}), at(1)));
  CHECK_FALSE(m.take("b", kOther, state(1, {2, 3}), at(2)));
  CHECK_FALSE(m.take("c", 3, state(1, {4}), at(2)));
  CHECK_FALSE(m.take("c", 3, state(2, {3}), at(2)));
  CHECK_FALSE(m.take("c", 3, state(2, {1}), at(2)));
  CHECK_FALSE(m.take("c", 3, state(0, {4}), at(2)));
  CHECK_FALSE(m.take("c", 3, state(4, {4}), at(2)));
  CHECK_FALSE(m.take("c", 3, state(2, {8}), at(2)));
  CHECK_FALSE(m.take("me", 3, state(2, {4}), at(2)));
  CHECK(m.take("c", 3, state(2, {4}), at(2)));
  // A known node cannot change its rank either.
  CHECK_FALSE(m.take("c", 3, state(1, {4}), at(3)));
  CHECK(m.hear("b", 2, at(3)) != nullptr);
  CHECK(m.hear("b", 9, at(3)) == nullptr);
  CHECK(m.hear("nobody", 9, at(3)) == nullptr);
  // Another supervisor takes the place of b when b is dead.
  CHECK(m.take("b", kOther, state(1, {2, 3}), at(13)));
  CHECK(m.hear("b", 2, at(13)) == nullptr);
}

TEST_CASE("a node of another job of the same name is a stranger, whichever comes first") {
  Self me = self(1, 2, 2);
  me.mark = {.address = "h0", .port = "29500", .world_size = 2};
  Membership m(me, kStart);
  m.connected(kStart);
  m.set_own(state(1, {1}), kStart);
  NodeState stranger = state(0, {0});
  stranger.mark = {.address = "h0", .port = "31111", .world_size = 2};
  CHECK_FALSE(m.take("a", 10, stranger, at(1)));
  CHECK(m.hear("a", 10, at(1)) == nullptr);
  CHECK(m.living(at(1)) == 1);
  NodeState peer = state(0, {0});
  peer.mark = {.address = "localhost", .port = "29500", .world_size = 2};
  CHECK(m.take("b", 11, peer, at(2)));
}

TEST_CASE("the next helper of the same supervisor takes the place of the killed one at once") {
  Membership m = joined(self(1, 3, 6), {2, 3});
  CHECK(m.take("a", kOther + 1, state(0, {0, 1}), at(1)));
  CHECK_FALSE(m.take("a", 2 * kOther + 2, state(0, {0, 1}), at(2)));
  // It cannot take the ranks of others.
  CHECK_FALSE(m.take("a", kOther + 2, state(0, {2}), at(2)));
  CHECK(m.take("a", kOther + 3, state(0, {0, 1}, false), at(2)));
  CHECK(m.hear("a", kOther + 1, at(2)) == nullptr);
  CHECK(m.hear("a", kOther + 3, at(2)) != nullptr);
  // It listens first.
  CHECK(elected(m, 3.5).empty());
  // What the killed one has sent comes late.
  CHECK_FALSE(m.take("a", kOther + 1, state(0, {0, 1}), at(4)));
  CHECK(m.take("a", kOther + 3, state(0, {0, 1}), at(4)));
  CHECK(elected(m, 4) == "a");
}

TEST_CASE("a node of a high rank hears the elected node only, until that is silent") {
  Membership m = joined(self(100), {100});
  CHECK_FALSE(m.hears_all());
  m.take("a", 10, state(0, {0}), at(1));
  m.take("asker", 11, state(50, {50}, false), at(2));
  CHECK(elected(m, 5) == "a");
  CHECK(elected(m, 10.9) == "a");
  CHECK_FALSE(m.hears_all());
  CHECK(m.update(at(11)));
  CHECK(m.hears_all());
  // Others may be there that it has not heard yet.
  CHECK(elected(m, 11).empty());
  CHECK(elected(m, 13.9).empty());
  CHECK(elected(m, 14) == "me");
  CHECK(m.hears_all());
  m.take("b", 12, state(1, {1}), at(15));
  CHECK(m.update(at(15)));
  CHECK_FALSE(m.hears_all());
  CHECK(elected(m, 15) == "b");
  CHECK(m.others().size() == 1);
}

TEST_CASE("the time of a lost connection is not held against the other nodes") {
  Membership m = joined(self(1), {1});
  m.take("a", 10, state(0, {0}), at(1));
  m.disconnected();
  CHECK(m.living(at(60)) == 1);
  m.connected(at(60));
  CHECK(elected(m, 60) == "a");
  CHECK(elected(m, 64) == "me");
}

TEST_CASE("infos are in the order of node ranks and say who is elected") {
  Membership m = joined(self(1), {1});
  m.take("b", 11, state(2, {2}), at(1));
  m.take("a", 10, state(0, {0}), at(2));
  const auto infos = m.infos(at(4));
  REQUIRE(infos.size() == 3);
  CHECK(infos[0].node == "a");
  CHECK(infos[0].elected);
  CHECK(infos[0].seen_s == doctest::Approx(2));
  CHECK(infos[1].node == "me");
  CHECK(infos[1].uncertainty_ns == 0);
  CHECK(infos[2].expected == std::vector<base::Rank>{2});
  CHECK(infos[2].uncertainty_ns == -1);
  CHECK_FALSE(m.infos(at(12))[0].alive);
}
