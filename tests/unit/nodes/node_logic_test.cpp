// Whole jobs: joining, rounds, dying nodes, lost messages.
#include "launcher/nodes/node_limits.h"
#include "tests/unit/nodes/simulated_network.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::nodes;
using namespace xpurun::launcher;

namespace {

// Every node makes its dump, and the result of the elected one is returned.
std::vector<GatheredMessage> complete_round(Network& net, size_t count, size_t elected) {
  for (size_t i = 0; i < count; ++i) {
    for (const DumpMessage& call : net.heard<DumpMessage>(i)) {
      net.dumped(i, call.request);
    }
  }
  net.run(10);
  return net.heard<GatheredMessage>(elected);
}

model::Verdict verdict() {
  model::Verdict v{.id = "hang.stuck", .kind = model::VerdictKind::hang};
  model::say(v, "rank 2 sleeps");
  return v;
}

}  // namespace

TEST_CASE("nodes join, agree on the elected one and say so once") {
  Network net(3);
  net.run(5);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(net.elected_by(i) == "n0");
    const auto joined = net.heard<JoinedMessage>(i);
    REQUIRE(joined.size() == 1);
    CHECK(joined[0].elected == "n0");
    CHECK(net.heard<AloneMessage>(i).empty());
  }
}

TEST_CASE("the word of joining comes with a list of all nodes") {
  Network net(3);
  while (net.heard<JoinedMessage>(1).empty()) {
    net.heard<NodesMessage>(1);
    net.run(0.25);
    REQUIRE(net.now() < s_to_ns(1020));
  }
  const auto lists = net.heard<NodesMessage>(1);
  REQUIRE(!lists.empty());
  CHECK(lists.back().nodes.size() == 3);
}

TEST_CASE("clocks that differ by ten minutes are measured, and all dumps are at the same moment") {
  Network net(3);
  net.at(1).clock_ahead = 600'000 * kMs;
  net.at(2).clock_ahead = -600'000 * kMs;
  net.run(5);
  net.logic(1).from_supervisor(StalledMessage{.stall = 1, .ranks = {1}});
  net.run(1);
  std::vector<int64_t> moments;
  for (size_t i = 0; i < 3; ++i) {
    const auto calls = net.heard<DumpMessage>(i);
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].node == "n1");
    moments.push_back(calls[0].at_wall_ns - net.at(i).clock_ahead);
  }
  CHECK(*std::max_element(moments.begin(), moments.end()) -
            *std::min_element(moments.begin(), moments.end()) <=
        20 * kMs);
  const auto gathered = complete_round(net, 3, 0);
  const NodesMessage listed = net.heard<NodesMessage>(0).back();
  for (const auto& n : listed.nodes) {
    CHECK(std::abs(n.offset_ns - net.at(static_cast<size_t>(n.node_rank)).clock_ahead) <=
          std::max<int64_t>(n.uncertainty_ns, 0));
  }
}

TEST_CASE("a node hears at once that no other node trains any more") {
  Network net(3);
  net.run(6);
  net.logic(1).from_supervisor(StateMessage{.phase = NodePhase::ending});
  net.logic(2).from_supervisor(StateMessage{.phase = NodePhase::ending});
  net.run(0.3);
  const std::vector<NodeInfo> nodes = net.heard<NodesMessage>(0).back().nodes;
  CHECK(nodes[1].phase == NodePhase::ending);
  CHECK(nodes[2].phase == NodePhase::ending);
  CHECK(nodes[1].alive);
}

TEST_CASE("several claims make one request, one gathering and one verdict, also over a bad network") {
  for (const unsigned loss : {0U, 20U}) {
    Network net(5);
    net.archives["/run/n3"] = std::string(3'000'000, 'x');
    net.run(5);
    net.lose(loss);
    for (size_t i = 0; i < 5; ++i) {
      net.logic(i).from_supervisor(StateMessage{.phase = NodePhase::stalled});
      net.logic(i).from_supervisor(StalledMessage{.stall = 1, .ranks = {static_cast<base::Rank>(i)}});
    }
    net.run(4);
    std::string request;
    for (size_t i = 0; i < 5; ++i) {
      const auto calls = net.heard<DumpMessage>(i);
      REQUIRE(calls.size() == 1);
      request = calls[0].request;
      net.dumped(i, request);
    }
    net.run(15);
    const auto gathered = net.heard<GatheredMessage>(0);
    REQUIRE(gathered.size() == 1);
    REQUIRE(gathered[0].nodes.size() == 5);
    for (const GatheredNode& n : gathered[0].nodes) {
      CAPTURE(n.reason);
      CHECK(n.status == NodeStatus::complete);
      CHECK(n.dump == "dumps/1-hang");
    }
    CHECK(net.at(0).unpacked["/run/n0/nodes/n3"] == net.archives["/run/n3"]);
    net.logic(0).from_supervisor(VerdictMessage{.request = request, .verdict = verdict()});
    net.logic(0).from_supervisor(ActMessage{.action = JobAction::kill, .exit_status = 124});
    net.run(30);
    for (size_t i = 1; i < 5; ++i) {
      const auto verdicts = net.heard<VerdictMessage>(i);
      REQUIRE(verdicts.size() == 1);
      CHECK(verdicts[0].node == "n0");
      CHECK(verdicts[0].directory == "/run/n0");
      CHECK(net.heard<ActMessage>(i).size() == 1);
    }
    for (size_t i = 0; i < 5; ++i) {
      CHECK(net.heard<DumpMessage>(i).empty());
    }
  }
}

TEST_CASE("a crash after the dump of a hang makes another request after the verdict") {
  Network net(2);
  net.run(5);
  net.logic(0).from_supervisor(StalledMessage{.stall = 1, .why = ClaimReason::hang});
  net.run(8);
  net.logic(1).from_supervisor(StalledMessage{.stall = 1, .why = ClaimReason::crash});
  const std::string first = net.heard<DumpMessage>(1).at(0).request;
  net.dumped(0, first);
  net.dumped(1, first);
  net.run(2);
  CHECK(net.heard<GatheredMessage>(0).size() == 1);
  net.heard<DumpMessage>(0);
  net.run(5);
  CHECK(net.heard<DumpMessage>(0).empty());
  net.logic(0).from_supervisor(VerdictMessage{.request = first, .verdict = verdict()});
  net.run(3);
  const auto second = net.heard<DumpMessage>(0);
  REQUIRE(second.size() == 1);
  CHECK(second[0].why == ClaimReason::crash);
}

TEST_CASE("a claim is void when the ranks move again before anybody heard it") {
  Network net(2);
  net.run(5);
  net.link(1, false);
  net.logic(1).from_supervisor(StateMessage{.phase = NodePhase::stalled});
  net.logic(1).from_supervisor(StalledMessage{.stall = 1});
  net.run(5);
  net.logic(1).from_supervisor(StateMessage{.phase = NodePhase::running});
  net.link(1, true);
  net.run(20);
  CHECK(net.heard<DumpMessage>(0).empty());
}

TEST_CASE("the elected node dies in a round: the next one starts again, within ten seconds") {
  Network net(3);
  net.run(5);
  net.logic(2).from_supervisor(StalledMessage{.stall = 1});
  net.run(1);
  const std::string first = net.heard<DumpMessage>(1).at(0).request;
  net.heard<DumpMessage>(2);
  net.at(0).running = false;
  const base::MonoNs died = net.now();
  while (net.elected_by(1) != "n1") {
    net.run(0.25);
    REQUIRE(net.now() - died <= s_to_ns(12.3));
  }
  net.run(2);
  const auto again = net.heard<DumpMessage>(2);
  REQUIRE(again.size() == 1);
  CHECK(again[0].request != first);
  net.dumped(1, net.heard<DumpMessage>(1).at(0).request);
  net.dumped(2, again[0].request);
  net.run(5);
  const auto gathered = net.heard<GatheredMessage>(1);
  REQUIRE(gathered.size() == 1);
  CHECK(gathered[0].nodes[0].status == NodeStatus::cut_off);
  CHECK(gathered[0].nodes[1].status == NodeStatus::complete);
  CHECK(gathered[0].nodes[2].status == NodeStatus::complete);
}

TEST_CASE("the elected node dies in a round of its own claim: the others are still stalled, and are judged") {
  Network net(3);
  net.run(5);
  net.logic(0).from_supervisor(StalledMessage{.stall = 1, .ranks = {0}});
  net.run(1);
  const std::string first = net.heard<DumpMessage>(1).at(0).request;
  net.heard<DumpMessage>(2);
  net.at(0).running = false;
  SUBCASE("they stand still") {
    net.logic(2).from_supervisor(StateMessage{.phase = NodePhase::stalled});
    net.run(15);
    const auto again = net.heard<DumpMessage>(2);
    REQUIRE(again.size() == 1);
    CHECK(again[0].request != first);
    CHECK(again[0].node == "n2");
    CHECK(again[0].ranks == std::vector<base::Rank>{0});
    const auto gathered = (net.dumped(1, net.heard<DumpMessage>(1).at(0).request),
                           net.dumped(2, again[0].request), net.run(5), net.heard<GatheredMessage>(1));
    REQUIRE(gathered.size() == 1);
    CHECK(gathered[0].nodes[0].status == NodeStatus::cut_off);
    // Once: the verdict ends the matter.
    net.logic(1).from_supervisor(VerdictMessage{.request = gathered[0].request, .verdict = verdict()});
    net.run(20);
    CHECK(net.heard<DumpMessage>(2).empty());
  }
  SUBCASE("they move") {
    net.run(30);
    CHECK(net.heard<DumpMessage>(2).empty());
  }
}

TEST_CASE("the helper of the elected node is killed in a round: the next one begins another round at once") {
  Network net(3);
  net.run(5);
  net.logic(1).from_supervisor(StalledMessage{.stall = 1, .ranks = {1}});
  net.logic(2).from_supervisor(StateMessage{.phase = NodePhase::stalled});
  net.run(0.5);
  const std::string first = net.heard<DumpMessage>(2).at(0).request;
  net.heard<DumpMessage>(1);
  net.at(0).running = false;
  net.dumped(1, first);
  net.run(1);
  SUBCASE("the claim of a living node") {}
  SUBCASE("nobody holds a claim any more") {
    net.logic(1).from_supervisor(StateMessage{.phase = NodePhase::stalled});
    net.logic(1).from_supervisor(StateMessage{.phase = NodePhase::running});
  }
  net.restart(0, NodePhase::stalled);
  net.run(5);
  const auto again = net.heard<DumpMessage>(2);
  REQUIRE(again.size() == 1);
  CHECK(again[0].request != first);
  CHECK(net.heard<DumpMessage>(0).back().request == again[0].request);
  for (size_t i = 0; i < 3; ++i) {
    net.dumped(i, again[0].request);
  }
  net.run(2);
  const auto gathered = net.heard<GatheredMessage>(0);
  REQUIRE(gathered.size() == 1);
  for (const GatheredNode& node : gathered[0].nodes) {
    CHECK(node.status == NodeStatus::complete);
  }
}

TEST_CASE("a node that was cut off in a round claims nothing of it when it is back") {
  Network net(3);
  net.run(5);
  net.logic(0).from_supervisor(StalledMessage{.stall = 1, .ranks = {0}});
  net.logic(2).from_supervisor(StateMessage{.phase = NodePhase::stalled});
  net.run(0.5);
  const std::string request = net.heard<DumpMessage>(1).at(0).request;
  REQUIRE(net.heard<DumpMessage>(2).size() == 1);
  net.link(2, false);
  net.dumped(0, request);
  net.dumped(1, request);
  net.run(15);
  REQUIRE(net.heard<GatheredMessage>(0).size() == 1);
  net.logic(0).from_supervisor(VerdictMessage{.request = request, .verdict = verdict()});
  net.run(5);
  net.link(2, true);
  net.run(10);
  CHECK(net.heard<VerdictMessage>(2).size() == 1);
  CHECK(net.heard<DumpMessage>(1).empty());
}

TEST_CASE("a node that is cut off says so once, and catches up with verdict and act") {
  Network net(3);
  net.run(5);
  net.link(2, false);
  net.run(2.9);
  CHECK(net.heard<AloneMessage>(2).empty());
  net.run(20);
  const auto alone = net.heard<AloneMessage>(2);
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].reason == "the server is gone");
  net.logic(1).from_supervisor(StalledMessage{.stall = 1});
  net.run(1);
  const auto gathered = complete_round(net, 3, 0);
  REQUIRE(gathered.size() == 1);
  CHECK(gathered[0].nodes[2].status == NodeStatus::cut_off);
  net.logic(0).from_supervisor(VerdictMessage{.request = gathered[0].request, .verdict = verdict()});
  net.logic(0).from_supervisor(ActMessage{.action = JobAction::kill});
  net.run(10);
  CHECK(net.heard<VerdictMessage>(2).empty());
  net.heard<JoinedMessage>(2);
  net.link(2, true);
  net.run(5);
  CHECK(net.heard<JoinedMessage>(2).size() == 1);
  CHECK(net.heard<VerdictMessage>(2).size() == 1);
  CHECK(net.heard<ActMessage>(2).size() == 1);
}

TEST_CASE("only the elected node may ask for dumps, judge and act") {
  Network net(3);
  net.run(5);
  // Node 1 is a member, but not elected.
  for (const Body& body : std::initializer_list<Body>{
           DumpCall{.request = "x"}, VerdictMessage{.request = "x"},
           JobAct{.id = 1, .act = {.action = JobAction::kill}}, Want{.request = "x", .numbers = {0}},
           Taken{.request = "x"}, Offer{.request = "n2-", .size = 1, .chunk = 1}, Part{.request = "x"},
           Answer{.id = 1}}) {
    net.logic(2).from_server(encode({.from = "n1", .instance = net.at(1).instance, .body = body}), net.now(),
                             kWall);
  }
  net.run(1);
  CHECK(net.heard<DumpMessage>(2).empty());
  CHECK(net.heard<VerdictMessage>(2).empty());
  CHECK(net.heard<ActMessage>(2).empty());
  CHECK(net.logic(2).dropped() >= 7);
}

TEST_CASE("a job of a hundred nodes: high ranks hear the elected node only, and every archive comes") {
  Network net(100);
  net.run(20);
  net.messages = 0;
  net.run(20);
  // Each state goes to the watchers, the elected one's to all; and pings.
  CHECK(net.messages < 10 * (100 * kWatchers + 100) + 3 * 2 * 99 * 2);
  CHECK(net.elected_by(99) == "n0");
  net.logic(99).from_supervisor(StalledMessage{.stall = 1});
  net.run(1);
  const auto gathered = complete_round(net, 100, 0);
  REQUIRE(gathered.size() == 1);
  CHECK(std::all_of(gathered[0].nodes.begin(), gathered[0].nodes.end(),
                    [](const GatheredNode& n) { return n.status == NodeStatus::complete; }));
  // A node that does not know the asking one answers it.
  net.logic(99).from_supervisor(AskMessage{.id = 1, .node = "n0", .verb = "status"});
  net.logic(0).from_supervisor(AskMessage{.id = 2, .node = "n98", .verb = "status"});
  net.run(1);
  CHECK(net.heard<RequestMessage>(0).size() == 1);
  CHECK(net.heard<RequestMessage>(98).size() == 1);
}

TEST_CASE("a question waits until its limit, or until a node that has not answered is dead") {
  Network net(3);
  net.run(5);
  const double limit_s = 60;
  net.logic(0).from_supervisor(AskMessage{.id = 1, .verb = "capture", .limit_s = limit_s});
  net.run(kAnswerTimeoutS + 1);
  CHECK(net.heard<AnswersMessage>(0).empty());
  net.logic(1).from_supervisor(AnswerMessage{.id = net.heard<RequestMessage>(1)[0].id, .status = 200});
  net.run(1);
  const auto first = net.heard<AnswersMessage>(0);
  REQUIRE(first.size() == 1);
  CHECK(first[0].node == "n1");
  CHECK_FALSE(first[0].last);
  SUBCASE("the node is silent") {
    net.run(limit_s - kAnswerTimeoutS - 4);
    CHECK(net.heard<AnswersMessage>(0).empty());
    net.run(3);
  }
  SUBCASE("the node dies") {
    net.at(2).running = false;
    net.run(kDeadAfterS + 1);
  }
  const auto second = net.heard<AnswersMessage>(0);
  REQUIRE(second.size() == 1);
  CHECK(second[0].node == "n2");
  CHECK(second[0].status == 504);
  CHECK(second[0].last);
}

TEST_CASE("all watchers die: a node of a high rank takes over") {
  Network net(12);
  net.run(5);
  for (size_t i = 0; i < static_cast<size_t>(kWatchers); ++i) {
    net.at(i).running = false;
  }
  net.run(20);
  for (size_t i = kWatchers; i < 12; ++i) {
    CHECK(net.elected_by(i) == "n8");
  }
}

TEST_CASE("a node that has ended after a failure is part of the next round with its archive") {
  Network net(3);
  net.run(5);
  net.logic(1).from_supervisor(StalledMessage{.stall = 1, .why = ClaimReason::death, .ranks = {1}});
  net.run(1);
  const auto first = complete_round(net, 3, 0);
  REQUIRE(first.size() == 1);
  net.logic(0).from_supervisor(VerdictMessage{.request = first[0].request, .verdict = verdict()});
  net.run(1);
  net.logic(1).from_supervisor(EndMessage{.exit_status = 137});
  net.at(1).running = false;
  net.run(1);
  net.logic(2).from_supervisor(StateMessage{.phase = NodePhase::stalled});
  net.logic(2).from_supervisor(StalledMessage{.stall = 2, .ranks = {2}});
  net.run(1);
  const auto second = complete_round(net, 3, 0);
  REQUIRE(second.size() == 1);
  REQUIRE(second[0].nodes.size() == 3);
  CHECK(second[0].nodes[2].status == NodeStatus::complete);
  const GatheredNode& ended = second[0].nodes[1];
  CHECK(ended.status == NodeStatus::partial);
  CHECK(ended.reason == "ended before with exit status 137");
  CHECK(ended.directory == "nodes/n1");
  CHECK(ended.dump == "dumps/1-hang");
}
