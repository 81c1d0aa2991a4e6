// Every field of the run directory's files survives writing and reading. The structs are filled by the same
// field lists that write and read them, each field with its own non-default value, so that a
// forgotten field or a duplicate key fails the test.
#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/gpu_state.h"
#include "common/model/evidence/kernel_events.h"
#include "common/model/evidence/source_record.h"
#include "common/model/job/nodes.h"
#include "common/model/json_visitors.h"
#include "common/model/run_manifest.h"
#include "common/model/speed/comparison.h"
#include "common/model/stacks/stack_file.h"
#include "common/model/timing/speed_report.h"
#include "common/model/timing/trace_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace xpurun;
using namespace xpurun::model;
using nlohmann::json;

namespace {

// Gives every value in a JSON tree a different value of the same type. Applied to the output of to_json() for
// a struct with one element in each list, this yields a file in which no member has its default.
class Filler {
 public:
  void fill(json& j, const std::string& key = {}) {
    if (key == "schema" || key == "started" || key == "exited_ok" || key == "next") {
      return;
    }
    if (j.is_object()) {
      for (auto& [name, value] : j.items()) {
        fill(value, name);
      }
    } else if (j.is_array()) {
      for (json& value : j) {
        fill(value, key);
      }
    } else if (j.is_boolean()) {
      j = !j.get<bool>();
    } else if (j.is_number_float()) {
      j = 0.5 + next_++;
    } else if (j.is_number()) {
      j = next_++;
    } else if (j.is_null()) {
      j = next_++;
    } else {
      j = text_for(key);
    }
  }

 private:
  std::string text_for(const std::string& key) {
    // Members with a closed vocabulary or a special format.
    static const std::map<std::string, std::string> kSpecial = {
        {"role", "worker"},
        {"outcome", "hang"},
        {"why", "crash"},
        {"status", "partial"},
        {"gil", "dropping"},
        {"motion", "stuck"},
        {"state", "T"},
        {"address", "0x1234"},
        {"pc", "0x7f0011223344"},
        {"offset", "0x88"},
        {"begin", "0x80"},
        {"kind", "kernel"},
        {"life", "working"},
        {"helper_life", "stirring"},
        {"outside", "polling"},
        {"stage", "started"},
        {"source", "torch"},
        {"clock", "gpu"},
        {"level", "suspected"},
        {"confidence", "medium"},
        {"relation", "member"},
        {"identity", "slurm"},
        {"throttle_reasons", "power_brake"},
        {"link", "between nodes"},
    };
    const auto special = kSpecial.find(key);
    return special != kSpecial.end() ? special->second : "text " + std::to_string(next_++);
  }
  int next_ = 3;
};

// Reads `filled`, writes the result again and names the first member that is lost.
template <typename T>
void check_round_trip(const json& filled, base::Result<T> (*from_json)(const json&)) {
  const auto back = from_json(filled);
  REQUIRE_MESSAGE(back, (back ? "" : back.error().what));
  const json again = json::parse(to_json(*back).dump());
  const json difference = json::diff(filled, again);
  CHECK_MESSAGE(difference.empty(), difference.dump(1));
}

template <typename T>
json filled(const T& with_one_of_each) {
  json j = json::parse(to_json(with_one_of_each).dump());
  Filler().fill(j);
  return j;
}

}  // namespace

TEST_CASE("every field of run.json survives writing and reading") {
  RunManifest r;
  r.started_wall_ns = 1;
  r.command = {"torchrun"};
  r.env = {{"A", "b"}};
  r.env_names = {"C"};
  r.options.push_back({.typed = "x"});
  r.processes.push_back({.cmdline = {"python"},
                         .error_stream = {.kind = StreamKind::file, .path = "x"},
                         .error_file = "x",
                         .death = {.happened = true}});
  r.crashes.push_back({.address = 1});
  r.exceptions.push_back(
      {.code = 1,
       .chain = {{.relation = Relation::cause, .type = "x", .frames = {{.source = "x"}}, .left_out = 1}}});
  r.verdict.signal = 1;
  r.verdict.exit_code = 1;
  r.verdict.ranks = RankSet{1};
  r.verdict.evidence = {"x"};
  r.verdict.hosts.push_back({.host = "x", .ranks = RankSet{1}});
  r.verdict.log_tail = {.file = "x", .lines = {"x"}, .shared = {1}, .reason = "x"};
  r.verdict.memory.where.function = "x";
  r.verdict.waiting.push_back({.ranks = RankSet{2}});
  r.verdict.collective.id = "x";
  r.verdict.collective.calls.push_back({.communicator = "x", .root = 1, .peer = 1});
  r.stalls.push_back({});
  r.stalls[0].action = HangAction::kill;
  r.dumps.push_back({});
  r.slowdowns.push_back({});
  r.awaited_ranks.push_back({});
  r.event_commands.push_back({});
  r.plugins.push_back({});
  json j = filled(r);
  // Derived from started_wall_ns.
  j["started"] = json::parse(to_json(*run_manifest_from_json(j)).dump())["started"];
  for (json* verdict : {&j["verdict"], &j["stalls"][0]["verdict"]}) {
    // "kind" and "state" have other meanings elsewhere.
    (*verdict)["kind"] = "interrupted";
    if (verdict->contains("collective")) {
      (*verdict)["collective"]["kind"] = "PP";
    }
    (*verdict)["state"] = "silent";
    (*verdict)["next"] =
        (*verdict)["next_text"].get<std::string>() + ": " + (*verdict)["next_command"].get<std::string>();
  }
  j["exceptions"][0]["kind"] = "unraisable";
  j["stalls"][0]["action"] = "restart";
  j["event_commands"][0]["event"] = "recovery";
  j["event_commands"][0]["status"] = "timeout";
  j["plugins"][0]["status"] = "not_run";
  j["processes"][0]["error_stream"]["kind"] = "terminal";
  check_round_trip(j, run_manifest_from_json);
}

TEST_CASE("a result of a plug-in is one JSON object") {
  const auto result =
      plugin_result_from_line(R"({"function": "f", "rank": 3, "status": "failed", "text": "x"})");
  REQUIRE(result);
  CHECK(result->function == "f");
  CHECK(result->rank == 3);
  CHECK(result->status == ProgramStatus::failed);
  CHECK(result->text == "x");
  CHECK(plugin_result_from_line(R"({"function": "", "rank": null, "status": "ok", "text": ""})")->rank ==
        base::kNoRank);
  for (const char* line : {"", "{", "[1]", R"({"function": "f"})", R"({"function": 3, "status": "ok"})"}) {
    CHECK_FALSE(plugin_result_from_line(line));
  }
}

TEST_CASE("every field of dump.json survives writing and reading") {
  DumpManifest d;
  d.processes.push_back({.host = "x"});
  d.idle_counts = true;
  d.ranks.push_back({.helper_life = HelperLife::working, .outside = OutsideWait::input});
  d.ranks[0].helpers.push_back({});
  json j = filled(d);
  j["idle_counts"] = true;
  check_round_trip(j, dump_manifest_from_json);
}

TEST_CASE("every field of nodes.json survives writing and reading") {
  Nodes n;
  n.nodes.push_back({.ranks = RankSet{1}});
  check_round_trip(filled(n), nodes_from_json);
}

TEST_CASE("every field of the files of a GPU capture survives writing and reading") {
  GpuCapture c;
  c.ranks.push_back(
      {.rank = 1, .sampling = {.status = SamplingStatus::busy, .resources = {{.metric = "x"}}}});
  json j = filled(c);
  j["ranks"][0]["status"] = "no_answer";
  j["ranks"][0]["sampling"]["status"] = "no_metrics";
  j["ranks"][0]["sampling"]["resources"][0]["resource"] = "dram";
  j["ranks"][0]["sampling"]["resources"][0]["unit"] = "share";
  check_round_trip(j, gpu_capture_from_json);
  ClockSamples s;
  s.gpus.push_back({.rank = 1, .throttled = {{.share = 0.5}}});
  check_round_trip(filled(s), clock_samples_from_json);
}

TEST_CASE("every field of collectives.json survives writing and reading") {
  CollectiveFacts f;
  f.ranks.push_back({.rank = 1});
  const CollectiveCall call{.reduce = "sum", .dtype = "float32", .root = 1, .peer = 1};
  f.ranks[0].communicators.push_back({.name = "x",
                                      .members = {1},
                                      .calls = {call},
                                      .messages = 3,
                                      .messages_done = 2,
                                      .point_to_point = {call}});
  check_round_trip(filled(f), collective_facts_from_json);
  // A long ascending list becomes a set in the file; any other stays a list.
  std::vector<base::Rank>& members = f.ranks[0].communicators[0].members;
  members.clear();
  for (base::Rank r = 0; r < 8000; ++r) {
    members.push_back(2 * r);
  }
  CHECK(collective_facts_from_json(json::parse(to_json(f).dump()))->ranks[0].communicators[0].members ==
        members);
  std::swap(members[0], members[1]);
  CHECK(collective_facts_from_json(json::parse(to_json(f).dump()))->ranks[0].communicators[0].members ==
        members);
  std::sort(members.begin(), members.end());
  members.erase(members.begin() + 1, members.end());
  for (base::Rank r = 1; r < 8000; ++r) {
    members.push_back(r);
  }
  const json j = json::parse(to_json(f).dump());
  CHECK(j["ranks"][0]["communicators"][0]["member_set"] == "0-7999");
  json absurd = j;
  absurd["ranks"][0]["communicators"][0]["member_set"] = "0-2000000000";
  CHECK(collective_facts_from_json(absurd)->ranks[0].communicators[0].members.empty());
}

TEST_CASE("every field of the evidence files survives writing and reading") {
  GpuState gpus;
  gpus.devices.push_back({.throttle_reasons = {ThrottleReason::thermal}, .problem = "x"});
  gpus.devices[0].nvlink.push_back({});
  gpus.devices[0].processes.push_back({});
  check_round_trip(filled(gpus), gpu_state_from_json);
  KernelEvents kernel;
  kernel.events.push_back({.pid = 1, .comm = "x", .xid = 1, .pci = "x"});
  json k = filled(kernel);
  k["events"][0]["kind"] = "xid";
  check_round_trip(k, kernel_events_from_json);
  SourceRecord source;
  source.files.push_back({.file = "x", .lines = {{.number = 1, .text = "x"}}});
  check_round_trip(filled(source), source_record_from_json);
  EvidenceManifest manifest;
  manifest.parts.push_back({.reason = "x"});
  json m = filled(manifest);
  m["parts"][0]["source"] = "kernel_log";
  check_round_trip(m, evidence_manifest_from_json);
}

TEST_CASE("every field of a stacks file survives writing and reading") {
  ProcessStacks p;
  p.cmdline = {"python"};
  p.reason = "x";
  p.notes = {"x"};
  p.fatal_signal = {.signal = 11, .has_address = true, .address = 1, .sender = 1};
  p.with_locals = true;
  p.forked = true;
  p.tasks.push_back({.id = 1, .name = "x", .awaits = 1, .object = "x", .frames = {{.func = "x"}}});
  p.module_paths = {{"libx.so", "/x/libx.so"}};
  p.interpreters.push_back({.id = 1, .gil_holder = 1, .gc = true});
  p.gpu_kernels.push_back({.full_name = "x", .status = "x"});
  p.threads.push_back({.thread_id = 1,
                       .python_name = "x",
                       .crashed = true,
                       .gil = GilState::holder,
                       .gc = true,
                       .interpreters = {1},
                       .wchan = "x",
                       .syscall = "x",
                       .syscall_file = "x",
                       .target = "x",
                       .lock = {.kind = "flock", .path = "x", .pids = {1}, .tid = 1},
                       .handling = {.type = "x", .frames = {{.source = "x"}}, .left_out = 1},
                       .cpp_exception = {.type = "x", .frames = {{.source = "x"}}, .left_out = 1},
                       .motion = Motion::moving});
  p.threads[0].frames.push_back(
      {.full_func = "x",
       .file = "x",
       .line = 1,
       .column = 1,
       .end_line = 1,
       .end_column = 1,
       .callee = "x",
       .module = "x",
       .build_id = "x",
       .pc = 1,
       .offset = 1,
       .locals = {{.name = "x", .value = "y", .pyspy = "z", .address = 1, .argument = true}},
       .eval = true,
       .inlined = true,
       .entry = true});
  json j = filled(p);
  // A flag that is not set is omitted.
  j["threads"][0]["crashed"] = true;
  j["threads"][0]["gc"] = true;
  j["interpreters"][0]["gc"] = true;
  for (const char* flag : {"eval", "inlined", "entry"}) {
    j["threads"][0]["frames"][0][flag] = true;
  }
  j["threads"][0]["frames"][0]["locals"][0]["argument"] = true;
  j["with_locals"] = true;
  j["forked"] = true;
  j["tasks"][0]["id"] = "0x1";
  j["tasks"][0]["awaits"] = "0x2";
  check_round_trip(j, process_stacks_from_json);
  // The same in the file's form, where the frames are a table.
  const auto full = process_stacks_from_json(j);
  REQUIRE(full);
  const auto compacted = process_stacks_from_json(json::parse(stacks_file(*full)));
  REQUIRE(compacted);
  const json difference = json::diff(j, json::parse(to_json(*compacted).dump()));
  CHECK_MESSAGE(difference.empty(), difference.dump(1));
}

TEST_CASE("each name of a vocabulary is unique and read back") {
  const auto check = []<typename E>(E) {
    std::set<std::string_view> seen;
    for (size_t i = 0; i < kNames<E>.size(); ++i) {
      CHECK(seen.insert(kNames<E>[i]).second);
      CHECK(from_name<E>(kNames<E>[i]) == static_cast<E>(i));
    }
    CHECK_FALSE(from_name<E>("no such name"));
  };
  check(ProcessRole{});
  check(RunOutcome{});
  check(DumpReason{});
  check(DumpStatus{});
  check(Motion{});
  check(FrameKind{});
  check(GilState{});
  check(CallSource{});
  check(CallStage{});
  check(EvidenceSource{});
  check(EvidenceStatus{});
  check(KernelEventKind{});
  check(NodeStatus{});
  check(ThrottleReason{});
  check(Stage{});
  check(StepSource{});
  check(ChangeKind{});
  check(SlowCause{});
  check(SpeedProblem{});
  check(SpeedSeverity{});
  check(TraceProblem{});
  check(MetricKind{});
  check(Judgement{});
}
