#include "launcher/supervise/control_api.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun;
using namespace xpurun::launcher;
using nlohmann::json;

namespace {

struct ControlApiScene : test::JobScene {
  bool ended = false;
  bool ending = false;
  DirectStorage at_once;  // reports results without the loop, for the token
  std::function<void(const std::string&)> dumped;
  TimingService timing{{loop, storage, table, options},
                       journal.dir(),
                       "node-a",
                       {.progress = [](base::Pid) { return TimingService::RankProgress(); },
                        .dumps = [] { return TimingService::DumpActivity(); },
                        .unknown_process = [](base::Pid) {},
                        .first_gpu_use = [] {}}};
  ControlApi control{
      {loop, at_once, timing, options},
      "run",
      "node-a",
      {.job_has_ended = [this] { return ended; },
       .job_is_ending = [this] { return ending; },
       .status =
           [] {
             LiveStatus status;
             status.run = "the-run";
             status.host = "h0";
             status.ranks = {{.rank = 0, .pid = 11}};
             return status;
           },
       .complete = [](LiveStatus& s) { s.gaps = {"known here"}; },
       .better_informed = [this] { return informed; },
       .dump = [this](std::function<void(const std::string&)> done) { dumped = std::move(done); },
       .capture = [this](CaptureRequest request, CaptureRunner::Done done) -> base::Result<std::string> {
         if (capturing) {
           return base::fail("a capture is not finished");
         }
         capturing = request;
         captured = std::move(done);
         return std::string("captures/1");
       },
       .change_traced = [this](const std::vector<std::string>& add,
                               const std::vector<std::string>& remove) -> base::Status {
         if (!remove.empty()) {
           return base::fail(remove.front() + " is not in the list of traced functions");
         }
         for (const std::string& name : add) {
           traced.functions.push_back({.name = name, .problem = std::nullopt});
         }
         traced.ranks = {{.rank = 0, .follows = FollowsList::pending}};
         return {};
       },
       .traced = [this] { return traced; },
       .look = [this](const LookOrder& order, double patience_s, MemoryLooks::Done done) -> base::Status {
         if (looked) {
           return base::fail("not finished");
         }
         look = order;
         look_patience_s = patience_s;
         looked = std::move(done);
         return {};
       },
       .step_s = [this] { return step_s; },
       .nodes = [this] { return NodeList{.node = "0-a", .expected = 2, .nodes = listed}; },
       .ask =
           [this](const AskMessage& question, NodeQuestions::Done done) {
             asked = question.node + "|" + question.verb + "|" + question.arguments;
             limit_s = question.limit_s;
             others_answered = std::move(done);
           }}};
  std::optional<CaptureRequest> capturing;
  CaptureRunner::Done captured;
  TracedState traced;
  LookOrder look;
  double look_patience_s = 0;
  MemoryLooks::Done looked;
  double step_s = -1;
  std::string asked;
  double limit_s = 0;
  std::string informed;  // the node that knows more
  std::vector<ListedNode> listed;
  NodeQuestions::Done others_answered;

  json answer;
  json ask(const json& request) {
    answer = json();
    control.handle(request, [this](const nlohmann::ordered_json& reply) { answer = reply; });
    return answer;
  }
};

}  // namespace

TEST_CASE("status and unknown requests") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "status"}})["run"] == "the-run");
  CHECK(s.ask({{"cmd", "reboot"}})["code"] == "bad_request");
}

TEST_CASE("requests go to other nodes, and their replies are combined") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "nodes"}})["node"] == "0-a");
  CHECK(s.ask({{"cmd", "status"}, {"node", "0-a"}})["run"] == "the-run");
  CHECK(s.asked.empty());
  CHECK(s.ask({{"cmd", "status"}, {"node", "all"}}).is_null());
  CHECK(s.asked == R"(|status|{"cmd":"status"})");
  s.others_answered({{.node = "1-b", .status = 200, .body = R"({"ok":true,"run":"there"})"},
                     {.node = "2-c", .status = 200, .body = "nonsense"}});
  REQUIRE(s.answer["answers"].size() == 3);
  CHECK(s.answer["answers"][0]["node"] == "0-a");
  CHECK(s.answer["answers"][0]["reply"]["run"] == "the-run");
  CHECK(s.answer["answers"][1]["reply"]["run"] == "there");
  CHECK(s.answer["answers"][2]["reply"].is_null());
  CHECK(s.ask({{"cmd", "dump"}, {"node", "1-b"}}).is_null());
  CHECK(s.asked == R"(1-b|dump|{"cmd":"dump"})");
  s.others_answered({});
  CHECK(s.answer["answers"].empty());
}

TEST_CASE("a node is meant by its name, its number, or its host if that is no other node's") {
  ControlApiScene s;
  s.listed = {{.node = "0-a", .node_rank = 0, .host = "a"},
              {.node = "1-b", .node_rank = 1, .host = "b"},
              {.node = "2-b", .node_rank = 2, .host = "b"}};
  for (const char* own : {"0-a", "0", "a"}) {
    CHECK(s.ask({{"cmd", "status"}, {"node", own}})["run"] == "the-run");
  }
  CHECK(s.asked.empty());
  for (const auto& [text, node] : {std::pair{"1-b", "1-b"}, {"2", "2-b"}, {"b", "b"}, {"3-c", "3-c"}}) {
    (void)s.ask({{"cmd", "dump"}, {"node", text}});
    CHECK(s.asked == std::string(node) + R"(|dump|{"cmd":"dump"})");
  }
}

TEST_CASE("who asks another node for files is told in which directory they are") {
  ControlApiScene s;
  const std::string here = std::filesystem::absolute("run").string();
  std::string said;
  s.control.handle_text(R"({"cmd":"dump"})", [&said](const std::string& text) { said = text; });
  s.dumped("dumps/1-request");
  CHECK(json::parse(said) == json{{"ok", true}, {"dir", "dumps/1-request"}, {"run_dir", here}});
  CHECK(s.ask({{"cmd", "dump"}, {"node", "all"}}).is_null());
  s.dumped("dumps/2-request");
  s.others_answered({});
  CHECK(s.answer["answers"][0]["reply"]["run_dir"] == here);
}

TEST_CASE("the status of the whole job comes from the node that hears all") {
  ControlApiScene s;
  const json job = {{"cmd", "status"}, {"job", true}};
  CHECK_FALSE(s.ask({{"cmd", "status"}}).contains("gaps"));
  CHECK(s.ask(job)["gaps"] == json{"known here"});
  CHECK(s.asked.empty());
  s.informed = "0-h0";
  CHECK(s.ask(job).is_null());
  CHECK(s.asked == R"(0-h0|status|{"cmd":"status","job":true,"here":true})");
  SUBCASE("its answer is added") {
    s.others_answered({{.node = "0-h0",
                        .status = 200,
                        .body = R"({"ok":true,"host":"h9","ranks":[{"rank":0},{"rank":5,"pid":3}]})"}});
    REQUIRE(s.answer["ranks"].size() == 2);
    CHECK(s.answer["ranks"][0]["pid"] == 11);
    CHECK(s.answer["ranks"][1]["rank"] == 5);
    CHECK(s.answer["ranks"][1]["host"] == "h9");
  }
  SUBCASE("without an answer: as far as it is known here") {
    s.others_answered({{.node = "0-h0", .status = 504}});
    CHECK(s.answer["gaps"] == json{"known here"});
  }
  CHECK(s.answer["run"] == "the-run");
  // Another node asks: the question goes no further.
  s.asked.clear();
  CHECK(s.ask({{"cmd", "status"}, {"job", true}, {"here", true}})["gaps"] == json{"known here"});
  CHECK(s.asked.empty());
}

TEST_CASE("a request from another node is answered here, whatever node it names") {
  ControlApiScene s;
  std::string said;
  const auto note = [&said](const std::string& text) { said = text; };
  s.control.handle_text(R"({"cmd":"status","node":"all"})", note);
  CHECK(json::parse(said)["run"] == "the-run");
  CHECK(s.asked.empty());
  for (const char* bad : {"", "nonsense", "[]", R"({"cmd":3})"}) {
    s.control.handle_text(bad, note);
    CHECK(json::parse(said)["code"] == "bad_request");
  }
}

TEST_CASE("a dump request is answered when the dump is complete, and refused when the job is ending") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "dump"}}).is_null());
  s.dumped("dumps/1-request");
  CHECK(s.answer == json{{"ok", true}, {"dir", "dumps/1-request"}});
  s.ending = true;
  CHECK(s.ask({{"cmd", "dump"}})["code"] == "ending");
}

TEST_CASE("the level of timing is set and reset") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "timing"}, {"level", "full"}})["level"] == "full");
  CHECK(s.timing.level() == wire::Level::full);
  CHECK(s.ask({{"cmd", "timing"}, {"level", "fast"}})["code"] == "bad_request");
  CHECK(s.ask({{"cmd", "timing"}})["code"] == "bad_request");
  CHECK(s.ask({{"cmd", "reset"}}) == json{{"ok", true}, {"level", "light"}});
  CHECK(s.timing.level() == wire::Level::light);
}

TEST_CASE("one trace at a time") {
  ControlApiScene s;
  const json first = s.ask({{"cmd", "trace"}, {"count", 5U}, {"name", "a"}});
  CHECK(first["dir"] == "traces/1-a");
  CHECK(first["start_wall_ns"].get<int64_t>() > 0);
  CHECK(s.ask({{"cmd", "trace"}})["code"] == "busy");
  CHECK(s.ask({{"cmd", "trace"}, {"count", 0}})["code"] == "bad_request");
  CHECK(s.ask({{"cmd", "reset"}})["ok"] == true);
  CHECK(s.ask({{"cmd", "trace"}, {"wait", true}}).is_null());
  s.run_for(1);  // no rank uses a GPU
  CHECK(s.answer["ended"] == "no rank uses a GPU");
  CHECK(s.answer["dir"] == "traces/2");
  s.ended = true;
  CHECK(s.ask({{"cmd", "trace"}})["code"] == "ending");
}

TEST_CASE("xpu_timer's request gets xpu_timer's replies") {
  ControlApiScene s;
  const json start = {{"cmd", "DumpKernelTrace"}, {"dump_path", "/data/timeline/"}};
  CHECK(s.ask(start) == json{{"node", "node-a"}, {"msg", "Starting dumping"}, {"dir", "traces/1-timeline"}});
  CHECK(s.ask(start)["msg"] == "The process is dumping, skip");
  CHECK(s.ask({{"cmd", "DumpKernelTrace"}, {"reset", true}}) ==
        json{{"node", "node-a"}, {"msg", "Force reset dumping status"}});
  CHECK(s.ask({{"cmd", "DumpKernelTrace"}, {"reset", true}})["msg"] == "Resetting status, ignore");
}

TEST_CASE("HTTP needs the token from the run directory") {
  ControlApiScene s;
  s.options.control_port = 0;
  REQUIRE(s.control.listen_http());
  CHECK(s.control.url().starts_with("http://127.0.0.1:"));
  CHECK(s.control.how_to_ask() == "the token is in run/control.token");
  std::string token = base::read_file("run/control.token").value();
  REQUIRE(token.size() == 33);
  token.pop_back();
  int status = 0;
  const auto ask = [&](const std::string& header) {
    s.control.handle_http({.method = "GET", .path = "/status", .headers = {{"authorization", header}}},
                          [&](const HttpResponse& response) { status = response.status; });
    return status;
  };
  CHECK(ask("Bearer " + token) == 200);
  CHECK(ask("Bearer " + token + "0") == 401);
}

TEST_CASE("a capture is answered when it has ended, or at once") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "capture"}, {"duration_s", 3}, {"rate", 20}}) == json());
  REQUIRE(s.capturing);
  CHECK(s.capturing->seconds == 3);
  CHECK(s.capturing->rate == 20);
  CHECK(s.capturing->reason == "request");
  s.captured("captures/1", "");
  CHECK(s.answer == json{{"ok", true}, {"dir", "captures/1"}});
  s.captured("captures/1", "no rank is alive");
  CHECK(s.answer["code"] == "failed");
  CHECK(s.answer["error"] == "no rank is alive");
  CHECK(s.ask({{"cmd", "capture"}})["code"] == "busy");

  s.capturing.reset();
  CHECK(s.ask({{"cmd", "capture"}, {"wait", false}}) == json{{"ok", true}, {"dir", "captures/1"}});
  CHECK_FALSE(s.captured);
  CHECK(s.capturing->seconds == 10);
  s.ending = true;
  CHECK(s.ask({{"cmd", "capture"}})["code"] == "ending");
}

TEST_CASE("another node has the time of a capture or a trace for its answer") {
  ControlApiScene s;
  const auto limit_of = [&](json request) {
    request.update({{"cmd", "capture"}, {"node", "1-b"}});
    s.ask(request);
    return s.limit_s;
  };
  CHECK(limit_of({{"duration_s", 100}}) == limit_of({}) + 90);
  CHECK(limit_of({{"duration_s", 300}}) < 350);
  // The other node may have longer steps.
  s.step_s = 0.1;
  CHECK(limit_of({{"steps", 3}}) == limit_of({{"duration_s", 300}}));
  CHECK(limit_of({{"duration_s", 301}}) == kAnswerTimeoutS);
  CHECK(limit_of({{"duration_s", "x"}}) == kAnswerTimeoutS);
  s.ask({{"cmd", "timing"}, {"level", "full"}, {"node", "1-b"}});
  CHECK(s.limit_s == kAnswerTimeoutS);
  s.ask({{"cmd", "dump"}, {"node", "1-b"}});
  CHECK(s.limit_s > 60);
  CHECK(s.limit_s < 300);
  s.ask({{"cmd", "trace"}, {"node", "1-b"}, {"timeout_s", 100}});
  CHECK(s.limit_s == kAnswerTimeoutS);
  s.ask({{"cmd", "trace"}, {"node", "1-b"}, {"timeout_s", 100}, {"wait", true}});
  CHECK(s.limit_s == kAnswerTimeoutS + 100);
}

TEST_CASE("a node without any of the chosen ranks is not captured") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "capture"}, {"ranks", "4-5"}}) ==
        json{{"ok", false}, {"code", "no_ranks"}, {"error", "this node has none of the ranks 4-5"}});
  CHECK_FALSE(s.capturing);
  s.ask({{"cmd", "capture"}, {"ranks", "0,5"}});
  CHECK(s.capturing);
}

TEST_CASE("the length of a capture in steps needs the duration of a step") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "capture"}, {"steps", 20}})["error"] ==
        "no step of this job was seen yet; give a duration instead of steps");
  s.step_s = 0.25;
  s.ask({{"cmd", "capture"}, {"steps", 20}});
  REQUIRE(s.capturing);
  CHECK(s.capturing->seconds == 5);
  for (const json& wrong :
       {json{{"steps", -1}}, json{{"steps", "x"}}, json{{"duration_s", 0}}, json{{"duration_s", 301}},
        json{{"rate", 0}}, json{{"rate", 2000}}, json{{"duration_s", nullptr}}}) {
    s.capturing.reset();
    json request = wrong;
    request["cmd"] = "capture";
    CHECK(s.ask(request)["code"] == "bad_request");
    CHECK_FALSE(s.capturing);
  }
}

TEST_CASE("a change of the traced functions is answered once the ranks follow, or after two seconds") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "trace-python"}})["functions"].empty());
  CHECK(s.ask({{"cmd", "trace-python"}, {"add", "a:f"}})["code"] == "bad_request");
  CHECK(s.ask({{"cmd", "trace-python"}, {"add", {1}}})["code"] == "bad_request");
  CHECK(s.ask({{"cmd", "trace-python"}, {"remove", {"a:f"}}})["error"] ==
        "a:f is not in the list of traced functions");
  CHECK(s.ask({{"cmd", "trace-python"}, {"add", {"a:f"}}}).is_null());
  s.run_for(0.35);
  CHECK(s.answer.is_null());
  s.traced.ranks[0].follows = FollowsList::yes;
  s.traced.functions[0].problem = model::TraceProblem::no_function;
  s.run_for(0.3);
  CHECK(s.answer["functions"][0]["problem"] == "no_function");
  CHECK(s.answer["ranks"][0]["follows"] == "yes");
  CHECK(s.ask({{"cmd", "trace-python"}, {"add", {"a:g"}}}).is_null());
  s.run_for(3);
  CHECK(s.answer["ok"] == true);
  CHECK(s.answer["ranks"][0]["follows"] == "pending");
  CHECK(s.answer["functions"][1]["problem"].is_null());
  s.ended = true;
  CHECK(s.ask({{"cmd", "trace-python"}, {"add", {"a:h"}}})["code"] == "ending");
  CHECK(s.ask({{"cmd", "trace-python"}})["ok"] == true);
}

TEST_CASE("a look at the memory is asked for, and answered with who looked") {
  ControlApiScene s;
  CHECK(s.ask({{"cmd", "memory"}, {"steps", "many"}})["code"] == "bad_request");
  CHECK(s.ask({{"cmd", "memory"}, {"steps", 8}, {"objects", true}, {"timeout_s", 7}}).is_null());
  CHECK(s.look.steps == 8);
  CHECK(s.look.objects);
  CHECK(s.look.reason == wire::kMemoryRequest);
  CHECK(s.look_patience_s == 7);
  CHECK(s.ask({{"cmd", "memory"}})["code"] == "busy");
  s.looked({.answered = {0, 1}, .silent = {3}, .unreachable = {}});
  CHECK(s.answer["answered"] == "0-1");
  CHECK(s.answer["silent"] == "3");
  CHECK(s.answer["unreachable"] == "");
}
