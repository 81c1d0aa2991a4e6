#include "common/base/clock.h"
#include "launcher/nodes/joint_decision.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

using Said = std::vector<std::string>;

struct DecisionScene {
  EventLoop loop = std::move(*EventLoop::create_simulated(1'000'000'000'000));
  Said events;
  JointDecision decision{
      loop,
      {.order_s = 1, .verdict_s = 35},
      {.send = [this](const ToHelper& m) { sent(m); },
       .dump = [this](const DumpMessage& m) { tell(fmt::format("dump for '{}'", m.request)); },
       .merge = [this](const GatheredMessage& m) { tell("merge " + m.request); },
       .decided =
           [this](const VerdictMessage& m) { tell(fmt::format("{} by '{}'", m.verdict.sentence, m.node)); },
       .act = [this](const ActMessage& m) { tell(std::string(model::name_of(m.action))); },
       .judge_alone = [this](const std::string& why) { tell("alone: " + why); }}};

  DecisionScene() { decision.set_node("0-a"); }

  void tell(const std::string& event) { events.push_back(event); }
  void sent(const ToHelper& message) {
    if (const auto* stalled = std::get_if<StalledMessage>(&message)) {
      tell(fmt::format("say stalled {}", stalled->stall));
    } else if (const auto* dumped = std::get_if<DumpedMessage>(&message)) {
      tell(fmt::format("say {} dumped in {}", dumped->request, dumped->directory));
    } else if (const auto* verdict = std::get_if<VerdictMessage>(&message)) {
      tell(fmt::format("say verdict of {}", verdict->request));
    }
  }
  Said told() { return std::exchange(events, {}); }
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  void join(int nodes = 2) { decision.joined({.server = "nats://s", .elected = "0-a", .nodes = nodes}); }
  void see(NodePhase other, bool alive = true) {
    decision.nodes_changed({.nodes = {{.node = "0-a"}, {.node = "1-b", .phase = other, .alive = alive}}});
  }
  // Of this moment: the moment of the wall clock, which the simulated clock does not follow, has passed.
  static DumpMessage order(const std::string& request) {
    return {.request = request, .at_wall_ns = base::wall_ns() - 1, .node = "1-b"};
  }
  static model::Verdict verdict(const std::string& sentence) {
    model::Verdict v;
    v.sentence = sentence;
    return v;
  }
};

}  // namespace

TEST_CASE("joint: without other nodes a claim is refused, and nothing is sent") {
  DecisionScene s;
  CHECK_FALSE(s.decision.claim(ClaimReason::hang, {0}));
  s.join(1);
  CHECK_FALSE(s.decision.claim(ClaimReason::hang, {0}));
  s.join(2);
  s.see(NodePhase::ended, /*alive=*/false);
  CHECK_FALSE(s.decision.claim(ClaimReason::hang, {0}));
  s.run_for(100);
  CHECK(s.told().empty());
  CHECK_FALSE(s.decision.is_open());
}

TEST_CASE("joint: from the claim to the verdict of this node over all nodes") {
  DecisionScene s;
  s.join();
  CHECK(s.decision.claim(ClaimReason::hang, {3}));
  CHECK(s.decision.is_open());
  CHECK(s.told() == Said{"say stalled 1"});
  s.decision.ordered(DecisionScene::order("r1"));
  s.run_for(5);
  CHECK(s.told() == Said{"dump for 'r1'"});
  s.decision.dumped("r1", "dumps/1-hang");
  s.decision.gathered({.request = "r1"});
  CHECK(s.told() == Said{"say r1 dumped in dumps/1-hang", "merge r1"});
  s.decision.merged(DecisionScene::verdict("hang: rank 5"));
  CHECK(s.told() == Said{"say verdict of r1", "hang: rank 5 by ''"});
  CHECK_FALSE(s.decision.is_open());
  s.run_for(100);
  CHECK(s.told().empty());
}

TEST_CASE("joint: another node's claim and verdict") {
  DecisionScene s;
  s.join();
  s.decision.ordered(DecisionScene::order("r1"));
  CHECK(s.decision.is_open());
  s.run_for(1);
  CHECK(s.told() == Said{"dump for 'r1'"});
  // This node's own ranks stall a moment later: said, without another dump.
  CHECK(s.decision.claim(ClaimReason::hang, {0}));
  s.run_for(5);
  CHECK(s.told() == Said{"say stalled 1"});
  s.decision.verdict_came(
      {.request = "r1", .node = "1-b", .verdict = DecisionScene::verdict("hang: rank 5")});
  CHECK(s.told() == Said{"hang: rank 5 by '1-b'"});
  s.decision.verdict_came(
      {.request = "r1", .node = "0-a", .verdict = DecisionScene::verdict("its own echo")});
  CHECK(s.told().empty());
  s.decision.act_came({.action = JobAction::kill});
  CHECK(s.told() == Said{"kill"});
}

TEST_CASE("joint: this node dumps by itself if no order comes, and judges alone if no verdict comes") {
  DecisionScene s;
  s.join();
  REQUIRE(s.decision.claim(ClaimReason::hang, {0}));
  s.run_for(0.9);
  CHECK(s.told() == Said{"say stalled 1"});
  s.run_for(0.2);
  CHECK(s.told() == Said{"dump for ''"});
  s.decision.dumped("", "dumps/1-hang");
  s.run_for(33);
  CHECK(s.told().empty());
  s.run_for(1);
  CHECK(s.told() == Said{"alone: no verdict of the job within 35 s"});
  // A late verdict rests on more than this node's own.
  s.decision.verdict_came(
      {.request = "r1", .node = "1-b", .verdict = DecisionScene::verdict("hang: rank 5")});
  CHECK(s.told() == Said{"hang: rank 5 by '1-b'"});
}

TEST_CASE("joint: each order starts the time limit again, and the end of the job shortens it") {
  DecisionScene s;
  s.join();
  REQUIRE(s.decision.claim(ClaimReason::death, {0}));
  s.run_for(30);
  CHECK(s.told() == Said{"say stalled 1"});        // a death has its own dump: none without an order
  s.decision.ordered(DecisionScene::order("r2"));  // of the next elected node
  s.run_for(30);
  CHECK(s.told() == Said{"dump for 'r2'"});
  CHECK(s.decision.is_open());
  s.decision.hurry(2);
  s.run_for(2.1);
  CHECK(s.told() == Said{"alone: no verdict of the job within 2.0 s"});
}

TEST_CASE("joint: cut off, a node judges alone at once, and claims are refused until it has joined again") {
  DecisionScene s;
  s.join();
  REQUIRE(s.decision.claim(ClaimReason::hang, {0}));
  s.told();
  s.decision.cut_off("no server");
  CHECK(s.told() == Said{"alone: no server"});
  CHECK(s.decision.why_alone() == "no server");
  CHECK_FALSE(s.decision.claim(ClaimReason::hang, {0}));
  s.join();
  CHECK(s.decision.why_alone().empty());
  CHECK(s.decision.claim(ClaimReason::hang, {0}));
  CHECK(s.told() == Said{"say stalled 2"});
  // A helper that was started again has forgotten the claim.
  s.decision.repeat_claim();
  CHECK(s.told() == Said{"say stalled 2"});
}

TEST_CASE("joint: a report over all nodes that fails leaves this node to itself") {
  DecisionScene s;
  s.join();
  s.decision.merged(DecisionScene::verdict("of nothing"));
  CHECK(s.told().empty());
  s.decision.gathered({.request = "r1"});
  s.decision.merged(std::nullopt);
  CHECK(s.told() == Said{"merge r1", "alone: the report over all nodes could not be made"});
}

TEST_CASE("joint: a moment in the far future is now") {
  DecisionScene s;
  s.join();
  DumpMessage order = DecisionScene::order("r1");
  order.at_wall_ns = base::wall_ns() + base::s_to_ns(600);
  s.decision.ordered(order);
  s.run_for(0.001);
  CHECK(s.told() == Said{"dump for 'r1'"});
}

TEST_CASE("joint: the stalls of others") {
  DecisionScene s;
  s.see(NodePhase::stalled);
  CHECK_FALSE(s.decision.others_stalled());  // not joined: stale
  s.join();
  CHECK(s.decision.others_stalled());
  s.see(NodePhase::stalled, /*alive=*/false);
  CHECK_FALSE(s.decision.others_stalled());
  s.see(NodePhase::running);
  CHECK_FALSE(s.decision.others_stalled());
  CHECK(s.decision.others_work());
  s.see(NodePhase::ending);
  CHECK_FALSE(s.decision.others_work());
  CHECK(s.decision.others() == 1);
}
