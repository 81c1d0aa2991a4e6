#include "launcher/nodes/joining.h"
#include "launcher/nodes/node_limits.h"
#include "launcher/nodes/node_questions.h"
#include "launcher/nodes/node_state.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/node_list.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("a node tells its ranks with their places and newest calls") {
  model::RankObservation still{.rank = 4, .state = 'S', .still_s = 12};
  still.function = "wait";
  still.file = "/usr/lib/python3.11/threading.py";
  still.line = 320;
  still.user_place = {.function = "collate", .file = "/src/data.py", .line = 7};
  model::RankObservation dead{.rank = 5, .alive = false, .still_s = 99};
  model::CollectiveFacts facts;
  facts.ranks.push_back({.rank = 4,
                         .communicators = {{.id = "w", .called = 8},
                                           {.id = "unused", .called = 0},
                                           {.id = "odd", .called = 3, .comparable = false}}});
  const auto ranks = ranks_on_node({still, dead}, newest_calls(facts));
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].where == "data.py:7 collate");
  CHECK(ranks[0].sequence == std::map<std::string, uint64_t>{{"w", 8}});
  CHECK_FALSE(ranks[1].alive);
  CHECK(ranks[1].where.empty());
  CHECK(longest_still_s({still, dead}) == 12);
}

TEST_CASE("what a node tells stays within the limits of the messages") {
  std::vector<model::RankObservation> ranks(kMostRanksOfNode + 5);
  ranks[0].rank = 1;
  ranks[0].user_place.function = std::string(10 * kLongestText, 'f');
  NewestCalls calls;
  for (int i = 0; i < 1000; ++i) {
    calls[1][std::to_string(i)] = 1;
  }
  calls[1][std::string(kLongestName + 1, 'a')] = 1;
  const auto told = ranks_on_node(ranks, calls);
  CHECK(told.size() == kMostRanksOfNode);
  CHECK(told[0].where.size() == kLongestText);
  CHECK(told[0].sequence.size() <= kMostCommunicatorsOfRank);
  CHECK(from_helper_from_line(to_line(ToHelper(StateMessage{.ranks = told}))).has_value() == false);
  CHECK(to_helper_from_line(to_line(ToHelper(StateMessage{.ranks = told}))).has_value());
}

TEST_CASE("the first message has what the options and the identity say") {
  RunOptions options = default_run_options();
  options.nodes.url = "auto";
  options.nodes.token = "geheim";
  options.evidence_timeout_s = 60;
  const JobIdentity identity{
      .nodes = 4, .node_rank = 2, .world_size = 8, .run = "job.7", .mark = {.address = "h0"}};
  const StartMessage m =
      start_message(options, identity, {.host = "h2", .directory = "/r", .living = {4, 5}});
  CHECK(m.automatic);
  CHECK(m.url.empty());
  CHECK(m.node == "2-h2");
  CHECK(m.run == plain_word("job.7"));
  CHECK(m.local_ranks == std::vector<base::Rank>{4, 5});
  CHECK(m.token == "geheim");
  CHECK(m.gather_timeout_s < verdict_limit_s(options));
  CHECK(verdict_limit_s(options) == 75);
  options.evidence_timeout_s = 0;
  CHECK(verdict_limit_s(options) == 20);
  CHECK(how_to_join(identity).find("one of 4 nodes") != std::string::npos);
}

TEST_CASE("questions to other nodes are answered once, when all answers are there or the helper is lost") {
  NodeQuestions questions;
  std::vector<size_t> done;
  const auto note = [&](const std::vector<AnswersMessage>& answers) { done.push_back(answers.size()); };
  const AskMessage first = questions.ask({.verb = "status"}, note);
  const AskMessage second = questions.ask({.node = "1-b", .verb = "dump", .limit_s = 60}, note);
  CHECK(first.id != second.id);
  CHECK(second.node == "1-b");
  CHECK(second.limit_s == 60);
  questions.answered({.id = first.id, .node = "1-b", .status = 200, .body = "{}"});
  CHECK(done.empty());
  questions.answered({.id = first.id, .node = "2-c", .status = 200, .body = "{}", .last = true});
  CHECK(done == std::vector<size_t>{2});
  questions.answered({.id = first.id, .node = "3-d", .last = true});  // late
  questions.answered({.id = 99, .last = true});
  questions.lost();
  CHECK(done == std::vector<size_t>{2, 0});
  questions.answered(
      {.id = questions.ask({.verb = "status"}, note).id, .last = true});  // no other node is there
  CHECK(done == std::vector<size_t>{2, 0, 0});
}

TEST_CASE("the list of nodes survives its JSON, and says what is wrong") {
  NodeList list{.node = "0-h0", .run = "j", .server = "nats://h0:4222", .expected = 3};
  list.nodes.push_back({.node = "0-h0",
                        .host = "h0",
                        .phase = model::NodePhase::stalled,
                        .elected = true,
                        .still_s = 20,
                        .uncertainty_ns = 1000,
                        .ranks = "0-3"});
  list.nodes.push_back({.node = "1-h1",
                        .node_rank = 1,
                        .host = "h1",
                        .phase = model::NodePhase::running,
                        .alive = false,
                        .seen_s = 30,
                        .offset_ns = -600'000'000'000,
                        .uncertainty_ns = 200'000,
                        .ranks = "4-7"});
  const auto back = node_list_from_json(to_json(list).dump());
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(list));
  const std::string text = node_table(*back, 120, Ink::plain());
  CAPTURE(text);
  CHECK(text.find("h0") != std::string::npos);
  CHECK(text.find("judges") != std::string::npos);
  CHECK(text.find("silent") != std::string::npos);
  CHECK(text.find("-600 s") != std::string::npos);
  CHECK(text.find("1 of 3 nodes have not been heard of") != std::string::npos);
  CHECK(text.find("job j at nats://h0:4222") != std::string::npos);
  CHECK(node_table({}, 80, Ink::plain()) == "this job has one node\n");
  list.server.clear();
  list.reason = "no server";
  CHECK(node_table(list, 80, Ink::plain()).ends_with("not connected: no server\n"));
  CHECK_FALSE(node_list_from_json("3"));
}
