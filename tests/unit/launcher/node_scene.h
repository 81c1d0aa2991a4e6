// A node of a job of two, whose helper and dumps are played by the test.
#pragma once

#include "common/base/clock.h"
#include "launcher/supervise/nodes/node_handler.h"
#include "tests/unit/launcher/fake_dump.h"
#include "tests/unit/launcher/job_scene.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace xpurun::test {

using namespace launcher;

struct FakeChannel final : NodeChannel {
  explicit FakeChannel(Hooks told) : hooks(std::move(told)) {}
  void start(std::string, StartMessage message) override {
    started = std::move(message);
    up = true;
    hooks.up();
  }
  bool running() const override { return up; }
  base::Pid pid() const override { return 0; }
  void send(const ToHelper& message) override { sent.push_back(message); }
  void give_up() override { given_up = true; }
  bool helper_ended(base::Pid, base::WaitStatus) override { return false; }
  void finish(int, double) override {}

  Hooks hooks;
  std::optional<StartMessage> started;
  bool up = false;
  bool given_up = false;
  std::vector<ToHelper> sent;
};

struct NodeScene : JobScene {
  JobState job;
  FakeDump* dump = nullptr;  // the newest
  bool collecting = false;
  bool reporting = false;
  bool interrupted = false;
  FakeChannel* link = nullptr;
  Watcher watcher{{loop, table, options, kStart, "h0"},
                  {.stall_changed = [](const StallEvent&) {},
                   .open_calls = {},
                   .rank_found = [] {},
                   .table_updated = [] {},
                   .warn = [](const std::string&) {}},
                  [] { return false; }};
  DumpCoordinator dumps{{loop, storage, journal, table, options},
                        {.host = "h0"},
                        {.discover = [] {},
                         .observations = [] { return std::vector<model::RankObservation>(); },
                         .save_calls = [](const std::string&) { return model::CollectiveFacts(); },
                         .release = [](base::Pid) {},
                         .stacks_written = [] {},
                         .dumped = [](base::MonoNs, bool) {},
                         .may_go_on = [] { return true; },
                         .idle = [] {}},
                        {.program = []() -> base::Result<std::string> { return std::string("stackdump"); },
                         .make =
                             [this](DumpPlan plan, const DumpJob::HelperStarted&, DumpJob::Done done) {
                               auto made = std::make_unique<FakeDump>(std::move(plan), std::move(done));
                               dump = made.get();
                               return made;
                             }}};
  std::optional<NodeHandler> nodes;

  NodeScene() {
    options.nodes.url = "nats://server";
    options.nodes.nodes = 2;
    options.nodes.node_rank = 0;
    options.name = "job";
    options.evidence_timeout_s = 5;
    nodes.emplace(
        NodeHandler::Parts{loop, storage, journal, table, watcher, dumps, job, options},
        NodeHandler::Setup{.host = "h0", .directory = "/run"},
        NodeHandler::Hooks{
            .started = [](base::Pid) {},
            .calls = [] { return NewestCalls(); },
            .collecting_evidence = [this] { return collecting; },
            .was_interrupted = [this] { return interrupted; },
            .reporting = [this] { return reporting; },
            .request_report = teller("report"),
            .judged =
                [this](const ReportResult& r) {
                  tell(fmt::format("judged {} {}", r.verdict ? r.verdict->sentence : "", r.place));
                },
            .stall_cleared = teller("cleared"),
            .end_the_job = teller("END"),
            .idle = teller("idle"),
            .control = [](const std::string& request,
                          const std::function<void(std::string)>& reply) { reply("to " + request); },
            .say = [this](const std::string& line) { tell("say " + line); }},
        NodeHandler::Backend{
            .program = []() -> base::Result<std::string> { return std::string("xpurun-nodes"); },
            .make =
                [this](NodeChannel::Hooks hooks) {
                  auto made = std::make_unique<FakeChannel>(std::move(hooks));
                  link = made.get();
                  return made;
                }});
  }

  void hear(FromHelper message) { link->hooks.received(std::move(message)); }
  void see(NodePhase other, bool alive = true) {
    hear(NodesMessage{
        .nodes = {{.node = "0-h0", .host = "h0", .elected = true},
                  {.node = "1-h1", .node_rank = 1, .host = "h1", .phase = other, .alive = alive}}});
  }
  void join() {
    nodes->rank_found();
    hear(JoinedMessage{.server = "nats://server", .elected = "0-h0", .nodes = 2});
    see(NodePhase::running);
    told();
    link->sent.clear();
  }
  void order(ClaimReason why, const std::string& request = "r1") {
    hear(DumpMessage{
        .request = request, .why = why, .at_wall_ns = base::wall_ns() - 1, .node = "1-h1", .ranks = {2}});
    run_for(0.01);
  }
  void end_dump() {
    dump->end();
    run_for(0.01);
  }
  template <typename T>
  std::vector<T> sent() {
    std::vector<T> out;
    for (const ToHelper& m : std::exchange(link->sent, {})) {
      if (const auto* one = std::get_if<T>(&m)) {
        out.push_back(*one);
      }
    }
    return out;
  }
  static model::Verdict verdict(model::VerdictKind kind, const std::string& sentence) {
    model::Verdict v;
    v.kind = kind;
    v.level = model::VerdictLevel::confirmed;
    v.sentence = sentence;
    return v;
  }
  void other_judges(const model::Verdict& v, const std::string& request = "r1") {
    hear(VerdictMessage{.request = request, .node = "1-h1", .directory = "/b", .verdict = v});
    run_for(0);
  }
  void end_command(int status) {
    job.command_status = base::WaitStatus(status);
    job.phase = JobPhase::settling;
    nodes->command_ended();
  }
};

}  // namespace xpurun::test
