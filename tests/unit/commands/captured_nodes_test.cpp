#include "commands/profile/captured_nodes.h"

#include "common/base/os/io.h"
#include "common/model/run_manifest.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

NodeList four_nodes() {
  return {.node = "1-b",
          .expected = 4,
          .nodes = {{.node = "0-a", .node_rank = 0, .host = "a"},
                    {.node = "1-b", .node_rank = 1, .host = "b"},
                    {.node = "2-c", .node_rank = 2, .host = "c"},
                    {.node = "3-d", .node_rank = 3, .host = "d", .alive = false}}};
}

constexpr const char* kAnswers = R"({"ok":true,"answers":[
  {"node":"2-c","status":200,"reply":{"ok":false,"code":"no_ranks","error":"this node has none"}},
  {"node":"0-a","status":200,"reply":{"ok":true,"dir":"captures/2","run_dir":"/r/a"}},
  {"node":"1-b","status":200,"reply":{"ok":true,"dir":"captures/1","run_dir":"/elsewhere"}}]})";

}  // namespace

TEST_CASE("captured nodes: by rank, those that are silent too") {
  std::vector<CapturedNode> nodes = captured_nodes(kAnswers, four_nodes(), true, "own");
  REQUIRE(nodes.size() == 4);
  CHECK(nodes[0].path() == "/r/a/captures/2");
  CHECK(nodes[0].host == "a");
  CHECK(nodes[1].path() == "own/captures/1");
  CHECK(nodes[1].own);
  CHECK_FALSE(nodes[2].has_ranks);
  CHECK(nodes[3].error == "no answer");
  nodes[1].readable = true;
  const auto lines = missing_lines(nodes);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("node 0-a: a:/r/a/captures/2 cannot be read here"));
  CHECK(lines[1] == "node 3-d: no answer");
  const auto j = to_json(nodes);
  CHECK(j[0]["dir"] == "/r/a/captures/2");
  CHECK(j[2]["dir"] == "");
  CHECK(j[2]["error"] == "this node has none");
  // Only the answers, if one node was asked.
  CHECK(captured_nodes(kAnswers, four_nodes(), false, "own").size() == 3);
}

TEST_CASE("captured nodes: refusals and nonsense") {
  const auto one = [](const std::string& answer) {
    const auto nodes =
        captured_nodes(R"({"ok":true,"answers":[)" + answer + "]}", four_nodes(), false, "own");
    const auto lines = missing_lines(nodes);
    return lines.empty() ? std::string() : lines.front();
  };
  CHECK(one(R"({"node":"h9","status":404,"reply":null})") ==
        "node h9: there is no such node: xpurun nodes lists them");
  CHECK(one(R"({"node":"0-a","status":504,"reply":null})") == "node 0-a: no answer");
  CHECK(one(R"({"node":"0-a","status":200,"reply":{"ok":false,"code":"busy","error":"not finished"}})") ==
        "node 0-a: not finished");
  CHECK(one(R"({"node":"2-c","status":200,"reply":{"ok":false,"code":"no_ranks","error":"has none"}})") ==
        "node 2-c: has none");
  CHECK(one(R"({"node":7,"status":"x","reply":[1]})") == "no answer");
  CHECK(one("3") == "no answer");
  // The node itself, without other nodes.
  const auto alone = captured_nodes(R"({"ok":true,"dir":"captures/3"})", {}, false, "own");
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].path() == "own/captures/3");
}

TEST_CASE("captured nodes: files are read if they are of that node") {
  const auto make = [](const std::string& dir, const std::string& host) {
    REQUIRE(base::make_dirs(dir + "/captures/1"));
    REQUIRE(base::write_file_atomic(dir + "/captures/1/profile.json", "{}"));
    model::RunManifest run;
    run.host = host;
    REQUIRE(base::write_file_atomic(dir + "/run.json", model::to_json(run).dump()));
  };
  make("own", "b");
  make("a", "a");
  make("c", "another");
  std::vector<CapturedNode> nodes = {
      {.node = "0-a", .host = "a", .run_dir = "a", .dir = "captures/1"},
      {.node = "1-b", .host = "b", .run_dir = "own", .dir = "captures/1", .own = true},
      {.node = "2-c", .host = "c", .run_dir = "c", .dir = "captures/1"},
      {.node = "3-b", .host = "b", .run_dir = "./own", .dir = "captures/1"},
      {.node = "4-e", .host = "e", .run_dir = "e", .dir = "captures/1"},
      {.node = "5-a", .host = "a", .run_dir = "a"}};
  find_readable(nodes);
  std::string readable;
  for (const CapturedNode& n : nodes) {
    readable += n.readable ? n.node + " " : "";
  }
  CHECK(readable == "0-a 1-b ");
}
