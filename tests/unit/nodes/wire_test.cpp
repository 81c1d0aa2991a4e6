// Messages between helpers: each survives encoding, and what is beyond a limit does not come in.
#include "launcher/nodes/agent/protocol/wire.h"

#include "launcher/nodes/agent/protocol/packed.h"
#include "launcher/nodes/node_limits.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::nodes;
using nlohmann::json;

namespace {

std::string text_of(const Body& body) {
  const std::string bytes = encode({.from = "n1", .instance = UINT64_MAX, .body = body});
  return bytes[0] == 'J' ? bytes.substr(1) : *unpack(bytes.substr(1), launcher::kLongestMessage);
}

bool passes(const Body& body) {
  return decode(encode({.from = "n1", .instance = 1, .body = body})).has_value();
}

NodeState full_state() {
  NodeState s{.node_rank = 3,
              .host = "h3",
              .expected = {6, 7},
              .eligible = true,
              .claim = {.stall = 2, .why = ClaimReason::crash, .ranks = {7}}};
  s.state = {
      .phase = launcher::NodePhase::stalled,
      .elapsed_s = 1.5,
      .still_s = 2.5,
      .exit_status = 3,
      .ranks = {
          {.rank = 7, .state = 'D', .alive = false, .still_s = 4.5, .where = "f", .sequence = {{"c", 9}}}}};
  return s;
}

}  // namespace

TEST_CASE("every message survives encoding and decoding") {
  model::Verdict verdict{.id = "hang.stuck", .kind = model::VerdictKind::hang, .ranks = {5}};
  model::say(verdict, "rank 5 sleeps");
  const std::vector<Body> bodies = {
      full_state(),
      DumpCall{.request = "r", .why = ClaimReason::death, .claimant = "n2", .ranks = {1}, .at_wall_ns = 5},
      Offer{.request = "r",
            .status = DumpOutcome::failed,
            .reason = "x",
            .directory = "d",
            .size = 9,
            .chunk = 4,
            .hash = UINT64_MAX},
      Want{.request = "r", .numbers = {0, 2}},
      Part{.request = "r", .number = 2, .bytes = std::string("\0\n{}", 4)},
      Taken{.request = "r"},
      Ping{.sent_ns = 7},
      Pong{.sent_ns = 7, .wall_ns = 8},
      Ask{.id = 3, .verb = "status", .arguments = "{}"},
      Answer{.id = 3, .status = 200, .body = std::string(10'000, 'x')},
      JobAct{.id = 4, .act = {.action = launcher::JobAction::kill, .exit_status = 124, .reason = "x"}},
      VerdictMessage{.request = "r", .node = "n0", .directory = "/run/n0", .verdict = verdict}};
  for (const Body& body : bodies) {
    const std::string text = text_of(body);
    CAPTURE(text.substr(0, 200));
    const auto back = decode(encode({.from = "n1", .instance = UINT64_MAX, .body = body}));
    REQUIRE_MESSAGE(back, (back ? "" : back.error().what));
    CHECK(back->from == "n1");
    CHECK(back->instance == UINT64_MAX);
    CHECK(back->body.index() == body.index());
    CHECK(text_of(back->body) == text);
  }
  CHECK(Offer{.size = 9, .chunk = 4}.chunks() == 3);
  CHECK(encode({.from = "n1", .instance = 1, .body = bodies[9]}).size() < 300);
}

TEST_CASE("claims beyond a limit are refused") {
  CHECK(passes(full_state()));
  const auto changed = [](auto change) {
    NodeState s = full_state();
    change(s);
    return passes(s);
  };
  CHECK_FALSE(changed([](NodeState& s) { s.node_rank = -1; }));
  CHECK_FALSE(changed([](NodeState& s) { s.node_rank = launcher::kMostNodes; }));
  CHECK_FALSE(changed([](NodeState& s) { s.host = std::string(300, 'x'); }));
  CHECK_FALSE(changed([](NodeState& s) { s.expected = {1'000'000'000}; }));
  CHECK_FALSE(changed([](NodeState& s) { s.expected.resize(launcher::kMostRanksOfNode + 1); }));
  CHECK_FALSE(changed([](NodeState& s) { s.state.ranks.resize(launcher::kMostRanksOfNode + 1); }));
  CHECK_FALSE(changed([](NodeState& s) { s.state.ranks[0].rank = -1; }));
  CHECK_FALSE(changed([](NodeState& s) { s.state.ranks[0].where = std::string(2000, 'x'); }));
  CHECK_FALSE(changed([](NodeState& s) {
    for (int i = 0; i < 300; ++i) {
      s.state.ranks[0].sequence[std::to_string(i)] = 1;
    }
  }));
  CHECK_FALSE(passes(Offer{.request = "r", .size = uint64_t{1} << 40, .chunk = 1000}));
  CHECK_FALSE(passes(Offer{.request = "r", .size = 1 << 20, .chunk = 0}));
  CHECK_FALSE(passes(Offer{.request = "r", .size = 1 << 20, .chunk = 1}));
  CHECK_FALSE(passes(Want{.request = "r", .numbers = std::vector<uint64_t>(100)}));
  CHECK_FALSE(passes(Answer{.status = 1000}));
  CHECK_FALSE(passes(DumpCall{.request = ""}));
  CHECK_FALSE(changed([](NodeState& s) { s.state.exit_status = 256; }));
  const auto judged = [](auto change) {
    VerdictMessage m{.request = "r", .node = "n0"};
    m.verdict.sentence = "hang: rank 1";
    m.verdict.ranks = {1};
    change(m.verdict);
    return passes(m);
  };
  CHECK(judged([](model::Verdict&) {}));
  CHECK_FALSE(passes(VerdictMessage{.request = "r", .node = "n0", .directory = std::string(100'000, '/')}));
  CHECK_FALSE(judged([](model::Verdict& v) { v.sentence = std::string(100'000, 'x'); }));
  CHECK_FALSE(judged([](model::Verdict& v) { v.evidence = {std::string(100'000, 'x')}; }));
  CHECK_FALSE(judged([](model::Verdict& v) { v.evidence.resize(launcher::kMostLinesOfVerdict + 1); }));
  CHECK_FALSE(judged([](model::Verdict& v) { v.ranks = {-1, 3}; }));
  CHECK_FALSE(judged([](model::Verdict& v) { v.ranks = {1, launcher::kMostRanksOfJob}; }));
  CHECK_FALSE(judged([](model::Verdict& v) { v.waiting = {{.ranks = {1'000'000'000}}}; }));
}

TEST_CASE("bytes that are no message are refused") {
  const std::string good = encode({.from = "n1", .instance = 1, .body = Taken{.request = "r"}});
  CHECK(decode(good));
  for (const std::string& bytes :
       {std::string(), std::string("J"), std::string("Z"), std::string("X{}\n"), std::string("J{}\n"),
        std::string("J[]\n"), good.substr(0, good.size() - 1), "Z" + good,
        "Z" + pack(std::string(9 << 20, ' ')), std::string(launcher::kLongestMessage + 1, 'J'),
        std::string(R"(J{"type":"taken","from":"n1","instance":1,"content":[]})") + "\n",
        std::string(R"(J{"type":"taken","from":"../x","instance":1,"content":{}})") + "\n",
        std::string(R"(J{"type":"taken","from":"n1","instance":0,"content":{}})") + "\n",
        std::string(R"(J{"type":"taken","from":"n1","instance":-1,"content":{}})") + "\n",
        std::string(R"(J{"type":3,"from":"n1","instance":1,"content":{}})") + "\n"}) {
    CAPTURE(bytes.substr(0, 100));
    CHECK_FALSE(decode(bytes));
  }
}

TEST_CASE("names of nodes, and words of subjects") {
  CHECK(valid_node_name("gpu-17.cluster:3"));
  for (const char* name : {"", ".", "..", ".x", "a/b", "a b", "a\nb", "ä", "a*"}) {
    CAPTURE(name);
    CHECK_FALSE(valid_node_name(name));
  }
  CHECK(subject_word("job-1_a") == "job-1_a");
  CHECK(subject_word("a.b *>") == "a%2Eb%20%2A%3E");
  CHECK(subject_word("%") == "%25");
  CHECK_FALSE(subject_word("").empty());
}
