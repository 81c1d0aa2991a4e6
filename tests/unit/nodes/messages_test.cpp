// Every field of every message between supervisor and helper survives writing and reading.
#include "launcher/nodes/node_messages.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::launcher;
using nlohmann::json;

namespace {

// Gives every value in a JSON tree another value of the same type.
class Filler {
 public:
  // `status`: what a status in words becomes.
  explicit Filler(std::string status) : status_(std::move(status)) {}

  void fill(json& j, const std::string& key = {}) {
    if (key == "type" || key == "verdict") {
      return;
    }
    if (j.is_structured()) {
      for (auto& [name, value] : j.items()) {
        fill(value, j.is_object() ? name : key);
      }
    } else if (j.is_boolean()) {
      j = !j.get<bool>();
    } else if (j.is_number_float()) {
      j = 0.5 + next_++;
    } else if (j.is_number()) {
      j = next_++;
    } else {
      j = text_for(key);
    }
  }

 private:
  std::string text_for(const std::string& key) {
    const std::map<std::string, std::string> special = {
        {"phase", "stalled"}, {"why", "death"}, {"action", "restart"}, {"state", "T"}, {"status", status_}};
    const auto found = special.find(key);
    return found != special.end() ? found->second : "text " + std::to_string(next_++);
  }

  std::string status_;
  int next_ = 3;
};

template <typename Variant>
void check_round_trip(const Variant& one_of_each, base::Result<Variant> (*read)(std::string_view)) {
  json j = json::parse(to_line(one_of_each));
  Filler(j["type"] == DumpedMessage::kType ? "failed" : "cut_off").fill(j);
  const auto back = read(j.dump());
  REQUIRE_MESSAGE(back, (back ? "" : back.error().what));
  CHECK(back->index() == one_of_each.index());
  const json difference = json::diff(j, json::parse(to_line(*back)));
  CHECK_MESSAGE(difference.empty(), difference.dump(1));
}

const RankOnNode kRank{.rank = 1, .where = "x", .sequence = {{"c", 1}}};

model::Verdict some_verdict() {
  model::Verdict v{.id = "hang.stuck", .kind = model::VerdictKind::hang, .ranks = {5, 6}, .host = "h1"};
  model::say(v, "rank 5 sleeps");
  return v;
}

}  // namespace

TEST_CASE("every field of a message to the helper survives writing and reading") {
  for (const ToHelper& message : std::initializer_list<ToHelper>{
           StartMessage{.local_ranks = {1}}, StateMessage{.exit_status = 1, .ranks = {kRank}},
           StalledMessage{.ranks = {1}}, DumpedMessage{}, VerdictMessage{.verdict = some_verdict()},
           ActMessage{.exit_status = 1}, AnswerMessage{}, AskMessage{}, EndMessage{}}) {
    check_round_trip(message, to_helper_from_line);
  }
}

TEST_CASE("every field of a message from the helper survives writing and reading") {
  NodeInfo node{.exit_status = 1, .expected = {1}, .ranks = {kRank}};
  for (const FromHelper& message : std::initializer_list<FromHelper>{
           JoinedMessage{}, AloneMessage{}, FailedMessage{}, NodesMessage{.nodes = {node}},
           DumpMessage{.ranks = {1}}, GatheredMessage{.nodes = {{.ranks = {1}}}},
           VerdictMessage{.verdict = some_verdict()}, ActMessage{.exit_status = 1}, RequestMessage{},
           AnswersMessage{}}) {
    check_round_trip(message, from_helper_from_line);
  }
}

TEST_CASE("a line that is no message is an error") {
  for (const char* line :
       {"", "x", "[]", "{}", R"({"type":3})", R"({"type":"nonsense"})", R"({"type":"joined"})",
        R"({"type":"state","ranks":3})", R"({"type":"state","ranks":[{"sequence":{"c":-1}}]})",
        R"({"type":"state","elapsed_s":"long"})", R"({"type":"start","local_ranks":[4294967296]})",
        R"({"type":"end","exit_status":1e30})"}) {
    CAPTURE(line);
    CHECK_FALSE(to_helper_from_line(line));
  }
  CHECK_FALSE(from_helper_from_line(R"({"type":"start"})"));
  CHECK(to_helper_from_line("{\"type\":\"end\",\"exit_status\":3}\n"));
}

TEST_CASE("a message is one line whatever its texts contain") {
  const std::string line = to_line(AloneMessage{.reason = "two\nlines and a broken byte \xff"});
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(from_helper_from_line(line));
}
