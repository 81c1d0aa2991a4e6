#include "common/base/os/io.h"
#include "report/build/build.h"
#include "report/diagnosis/diagnose.h"
#include "report/nodes/job_dump.h"
#include "report/nodes/merged_run.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun;
using namespace xpurun::report;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kStart = 1'795'230'873'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int kKilled = 9;
constexpr int kAborted = 6;
constexpr int kFailed = 1 << 8;

// Two ranks on a host. Process numbers are the same on all hosts, as in containers.
model::RunManifest run_on(const std::string& host, base::Rank first, int64_t started_ns = kStart) {
  model::RunManifest run{.id = "job-" + host, .host = host, .started_wall_ns = started_ns, .elapsed_s = 60};
  run.hang_timeout_s = 10;
  run.world_size = 4;
  run.supervisor_pid = 40;
  run.main_pid = 50;
  run.outcome = model::RunOutcome::exit;
  run.child_status = base::WaitStatus(kFailed);
  run.processes.push_back({.pid = 50, .role = model::ProcessRole::agent, .comm = "torchrun"});
  for (base::Rank r = first; r < first + 2; ++r) {
    run.processes.push_back({.pid = 100 + r - first,
                             .ppid = 50,
                             .role = model::ProcessRole::rank,
                             .rank = r,
                             .python = true,
                             .seen_s = 1});
  }
  return run;
}

model::ProcessRecord& rank_of(model::RunManifest& run, base::Rank rank) {
  return *std::find_if(run.processes.begin(), run.processes.end(),
                       [&](const auto& p) { return p.role == model::ProcessRole::rank && p.rank == rank; });
}

void dies(model::RunManifest& run, base::Rank rank, int status, double at_s) {
  rank_of(run, rank).death = {
      .happened = true, .order = 1, .at_s = at_s, .wait_status = base::WaitStatus(status)};
}

// In all_reduce: a failure that a peer may have caused. Otherwise in the program's own code.
void raises(model::RunManifest& run, base::Rank rank, double at_s, bool in_all_reduce) {
  model::ExceptionLink link{.type = in_all_reduce ? "RuntimeError" : "KeyError", .message = "x"};
  link.frames.push_back({.file = "/home/user/train.py", .line = 44, .function = "step"});
  if (in_all_reduce) {
    link.frames.push_back({.file = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py",
                           .line = 1534,
                           .function = "all_reduce"});
  }
  run.exceptions.push_back({.pid = rank_of(run, rank).pid,
                            .rank = rank,
                            .at_s = at_s,
                            .wall_ns = run.started_wall_ns + static_cast<int64_t>(at_s * 1e9),
                            .chain = {link}});
  dies(run, rank, kFailed, at_s + 0.2);
}

JobRuns job_of(std::vector<model::RunManifest> runs, int64_t offset_ns = 0,
               int64_t uncertainty_ns = 1'000'000) {
  JobRuns job;
  for (model::RunManifest& run : runs) {
    NodeRun node{.path = "none", .answered = true, .run = std::move(run)};
    node.entry = {.node = node.run.host, .host = node.run.host};
    if (!job.nodes.empty()) {
      node.entry.offset_ns = offset_ns;
      node.entry.uncertainty_ns = uncertainty_ns;
      node.label = "nodes/" + node.run.host + "/";
    }
    job.nodes.push_back(std::move(node));
  }
  return job;
}

model::RunManifest merged(const JobRuns& job) {
  return merge_runs(job, RankOwners(job, shifts_of(job)));
}

model::Verdict verdict_on(const JobRuns& job) {
  return diagnose({.run = merged(job)});
}

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

void put_file(const std::string& path, const std::string& text) {
  REQUIRE(base::make_dirs(fs::path(path).parent_path()));
  REQUIRE(base::write_file_atomic(path, text));
}

enum class Doing { waits, sleeps };

// A run directory with a stall at 20 s and its dump.
void put_hung(const std::string& dir, model::RunManifest run, std::map<base::Rank, Doing> ranks) {
  run.outcome = model::RunOutcome::running;
  run.stalls = {{.n = 1, .at_s = 20, .dump = "dumps/1-hang"}};
  run.dumps = {{.n = 1, .why = model::DumpReason::hang, .dir = "dumps/1-hang", .at_s = 20}};
  model::DumpManifest dump{
      .n = 1, .why = model::DumpReason::hang, .host = run.host, .at_s = 20, .hang_timeout_s = 10};
  for (const auto& [rank, doing] : ranks) {
    // sample_rank(2) sleeps in load_batch, the others wait in all_reduce.
    model::ProcessStacks p = testing::sample_rank(doing == Doing::sleeps ? 2 : 0);
    for (model::Frame& f : p.threads.front().frames) {
      f.file = f.func == "all_reduce" ? "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
                                      : f.file;
    }
    p.rank = rank;
    p.host = run.host;
    p.pid = rank_of(run, rank).pid;
    const std::string file = "rank-" + std::to_string(rank) + ".stacks.json";
    put_file(dir + "/dumps/1-hang/" + file, to_json(p).dump());
    dump.processes.push_back({.pid = p.pid, .rank = rank, .role = model::ProcessRole::rank, .file = file});
    dump.ranks.push_back({.rank = rank, .pid = p.pid, .host = run.host, .state = 'S', .still_s = 12});
  }
  put_file(dir + "/dumps/1-hang/dump.json", to_json(dump).dump());
  put_file(dir + "/run.json", to_json(run).dump());
}

void put_nodes(const std::string& dir, std::vector<model::NodeEntry> others) {
  model::Nodes nodes{.request = "1", .this_node = "a", .elected = "a"};
  nodes.nodes.push_back({.node = "a", .host = "a", .node_rank = 0, .ranks = {0, 1}, .dump = "dumps/1-hang"});
  std::ranges::move(others, std::back_inserter(nodes.nodes));
  put_file(dir + "/nodes.json", to_json(nodes).dump());
}

model::NodeEntry node_b() {
  return {.node = "b",
          .host = "b",
          .node_rank = 1,
          .ranks = {2, 3},
          .uncertainty_ns = 100'000,
          .directory = "nodes/b",
          .dump = "dumps/1-hang"};
}

}  // namespace

TEST_CASE("times of another node are moved onto the clock of this node") {
  auto b = run_on("b", 2, kStart + 3 * kSecond);
  dies(b, 3, kKilled, 5);
  raises(b, 2, 6, false);
  const auto run = merged(job_of({run_on("a", 0), b}, 600 * kSecond));  // ten minutes ahead
  const auto death =
      std::find_if(run.processes.begin(), run.processes.end(), [](const auto& p) { return p.rank == 3; });
  // By its own clock it began 3 s later, so in fact 597 s earlier.
  CHECK(death->death.at_s == doctest::Approx(5 - 597));
  CHECK(run.exceptions.front().at_s == doctest::Approx(6 - 597));
  CHECK(run.exceptions.front().wall_ns == kStart + (3 + 6 - 600) * kSecond);
  CHECK(host_of(run, death->node) == "b");
}

TEST_CASE("the first failure of all nodes is the root cause, and is told with its host") {
  auto a = run_on("a", 0);
  auto b = run_on("b", 2);
  raises(a, 0, 5.5, true);
  raises(a, 1, 5.5, true);
  dies(b, 3, kKilled, 5);
  const auto verdict = verdict_on(job_of({a, b}));
  CHECK(verdict.id == "crash.killed");
  CHECK(verdict.ranks == model::RankSet{3});
  CHECK(verdict.sentence.find("rank 3 (host b) was killed by SIGKILL") != std::string::npos);
  REQUIRE(verdict.hosts.size() == 1);
  CHECK(verdict.hosts[0].host == "b");
  // From node a's data alone, its own rank is the culprit.
  CHECK(diagnose({.run = a}).ranks.contains(0));
}

TEST_CASE("failures that the clocks cannot order") {
  struct Row {
    const char* about;
    double a_s;
    double b_s;
    bool a_waits;
    bool b_waits;
    int64_t uncertainty_ns;
    std::vector<base::Rank> ranks;
    bool tie;
  };
  const Row rows[] = {
      {"far apart", 5, 8, false, false, 1'000'000, {0}, false},
      {"far apart, the other way", 8, 5, false, false, 1'000'000, {2}, false},
      {"within the uncertainty", 5, 5.001, false, false, 50'000'000, {0, 2}, true},
      {"the first one was in a call that waits for the other", 5, 5.02, true, false, 50'000'000, {2}, false},
      {"the later one was", 5, 5.02, false, true, 50'000'000, {0}, false},
      {"both were alike", 5, 5.02, true, true, 50'000'000, {0}, false},
      {"clocks were not compared", 5, 5.5, false, false, -1, {0, 2}, true},
      {"clocks were not compared, far apart", 5, 7.5, false, false, -1, {0}, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.about);
    auto a = run_on("a", 0);
    auto b = run_on("b", 2);
    raises(a, 0, row.a_s, row.a_waits);
    raises(b, 2, row.b_s, row.b_waits);
    b.exceptions.front().chain.front().message = row.a_waits && row.b_waits ? "x" : "y";
    const auto verdict = verdict_on(job_of({a, b}, 0, row.uncertainty_ns));
    CHECK(verdict.ranks.ranks() == row.ranks);
    CHECK((verdict.sentence.find("it is not known which failed first") != std::string::npos) == row.tie);
    CHECK((verdict.confidence == model::Confidence::low) == row.tie);
  }
}

TEST_CASE("a node that said nothing may be the reason for a failure in a call that waits for it") {
  struct Row {
    const char* about;
    bool waits;
    bool answered;
    std::vector<base::Rank> ranks;
  };
  const Row rows[] = {
      {"in all_reduce, and host b is silent", true, false, {0, 2, 3}},
      {"in the program's own code", false, false, {0}},
      {"in all_reduce, and host b has answered", true, true, {0}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.about);
    auto a = run_on("a", 0);
    raises(a, 0, 5, row.waits);
    JobRuns job = job_of({a, run_on("b", 2)});
    if (!row.answered) {
      job.nodes[1].answered = false;
      job.nodes[1].run = {};
      job.nodes[1].entry.status = model::NodeStatus::cut_off;
      job.nodes[1].entry.ranks = {2, 3};
    }
    const auto verdict = verdict_on(job);
    CHECK(verdict.id == "exit.exception");
    CHECK(verdict.ranks.ranks() == row.ranks);
    const bool told =
        verdict.sentence.find("; nothing is known about ranks 2-3 (host b), which may have failed first") !=
        std::string::npos;
    CHECK(told == (row.ranks.size() > 1));
    CHECK((verdict.confidence == model::Confidence::low) == told);
    CHECK((verdict.next.text == "find out why no data came from ranks 2-3 (host b)") == told);
  }
}

TEST_CASE("the same process number on two hosts is two processes") {
  auto a = run_on("a", 0);
  auto b = run_on("b", 2);
  raises(b, 2, 5, false);  // pid 100, as rank 0 on a
  dies(a, 0, kFailed, 9);
  const auto verdict = verdict_on(job_of({a, b}));
  CHECK(verdict.ranks == model::RankSet{2});
  CHECK(verdict.host == "b");
  b = run_on("b", 2);
  b.crashes.push_back({.pid = 100, .tid = 100, .rank = 2, .signal = 11, .at_s = 4});
  dies(b, 2, 11, 4.1);
  dies(a, 0, kFailed, 9);
  const auto crash = verdict_on(job_of({a, b}));
  CHECK(crash.ranks == model::RankSet{2});
  CHECK(crash.id == "crash.signal");
}

TEST_CASE("a rank that two nodes claim counts once") {
  auto b = run_on("b", 1);  // claims rank 1, like a
  dies(b, 1, kKilled, 3);
  JobRuns job = job_of({run_on("a", 0), b});
  const RankOwners disputed(job, shifts_of(job));
  CHECK(disputed.owns(0, 1));
  CHECK(disputed.disputed(1, 1));
  CHECK(disputed.owns(1, 2));
  CHECK(mentions(disputed.notes(), "rank 1 is on node a and on node b"));
  CHECK(merge_runs(job, disputed).processes.size() == 5);
  // The node that was expected to have it has it.
  job.nodes[1].entry.ranks = {1, 2};
  CHECK(RankOwners(job, shifts_of(job)).owns(1, 1));
  // After a restart the rank is on another node.
  auto a = run_on("a", 0);
  dies(a, 1, kFailed, 2);
  rank_of(b, 1).seen_s = 4;
  job = job_of({a, b});
  const RankOwners moved(job, shifts_of(job));
  CHECK(moved.notes().empty());
  CHECK(moved.owns(1, 1));
  CHECK_FALSE(moved.disputed(0, 1));
  CHECK(merge_runs(job, moved).processes.size() == 6);
  b.processes.push_back({.pid = 7, .role = model::ProcessRole::rank, .rank = 2'000'000'000});
  job = job_of({a, b});
  CHECK(mentions(RankOwners(job, shifts_of(job)).notes(), "2000000000 is not believable"));
}

TEST_CASE("one stall seen by two nodes is one, and stalls apart are two") {
  auto a = run_on("a", 0);
  auto b = run_on("b", 2);
  a.stalls = {{.n = 1, .at_s = 20, .cleared_s = 30, .dump = "dumps/1-hang"},
              {.n = 2, .at_s = 50, .dump = "dumps/2-hang"}};
  b.stalls = {{.n = 1, .at_s = 49, .dump = "dumps/1-hang"}};
  b.stalls[0].verdict.confidence = model::Confidence::high;
  b.stalls[0].verdict.ranks = {3};
  const auto run = merged(job_of({a, b}));
  REQUIRE(run.stalls.size() == 2);
  CHECK(run.stalls[0].cleared_s == 30);
  CHECK(run.stalls[1].at_s == 49);
  CHECK(run.stalls[1].dump == "dumps/2-hang");
  CHECK(run.stalls[1].verdict.ranks == model::RankSet{3});
}

TEST_CASE("ranks that wait for a failed one are no hang of the job before they have been looked at") {
  auto a = run_on("a", 0);
  a.outcome = model::RunOutcome::running;
  a.stalls = {{.n = 1, .at_s = 7}};
  auto b = run_on("b", 2);
  raises(b, 2, 5, false);
  const auto failure = verdict_on(job_of({a, b}));
  CHECK(failure.id == "exit.exception");
  CHECK(failure.ranks == model::RankSet{2});
  a.stalls[0].dump = "dumps/1-hang";
  CHECK(verdict_on(job_of({a, b})).kind == model::VerdictKind::hang);
}

TEST_CASE("a rank that leaves early while ranks of the other node have not ended yet") {
  enum class Failure { in_wait, in_own_code, abort, killed };
  struct Row {
    Failure failure;
    double after_s;       // from the exit with status 0
    bool other_finishes;  // a rank of the other node exits with 0 after the failure
    const char* id;
    base::Rank culprit;
  };
  for (const Row& row :
       {Row{Failure::in_wait, 0.1, false, "exit.left_early", 1},
        Row{Failure::in_wait, 30, false, "exit.left_early", 1},
        Row{Failure::in_wait, 0.1, true, "exit.exception", 0},
        Row{Failure::in_own_code, 0.1, false, "exit.exception", 0},
        Row{Failure::abort, 0.1, false, "exit.left_early", 1},
        Row{Failure::abort, 0.1, true, "crash.signal", 0}, Row{Failure::abort, 30, false, "crash.signal", 0},
        Row{Failure::killed, 0.1, false, "crash.killed", 0}}) {
    CAPTURE(static_cast<int>(row.failure));
    CAPTURE(row.after_s);
    CAPTURE(row.other_finishes);
    constexpr double kLeft = 5;
    auto a = run_on("a", 0);
    auto b = run_on("b", 2);
    dies(a, 1, 0, kLeft);
    if (row.failure == Failure::in_wait || row.failure == Failure::in_own_code) {
      raises(a, 0, kLeft + row.after_s, row.failure == Failure::in_wait);
    } else {
      dies(a, 0, row.failure == Failure::abort ? kAborted : kKilled, kLeft + row.after_s);
    }
    if (row.other_finishes) {
      dies(b, 2, 0, kLeft + row.after_s + 1);
    }
    const auto verdict = verdict_on(job_of({a, b}));
    CHECK(verdict.id == row.id);
    CHECK(verdict.ranks == model::RankSet{row.culprit});
  }
}

TEST_CASE("outcomes of the nodes as that of the job") {
  using O = model::RunOutcome;
  struct Row {
    O a;
    O b;
    O job;
  };
  for (const Row& row :
       {Row{O::exit, O::hang, O::hang}, Row{O::running, O::exit, O::running},
        Row{O::exit, O::spawn_failed, O::spawn_failed}, Row{O::hang, O::interrupted, O::hang},
        Row{O::exit, O::interrupted, O::interrupted}}) {
    auto a = run_on("a", 0);
    auto b = run_on("b", 2);
    a.outcome = row.a;
    b.outcome = row.b;
    CHECK(merged(job_of({a, b})).outcome == row.job);
  }
  // The first signal of all nodes, by the clock of this one.
  auto early = run_on("a", 0), late = run_on("b", 2);
  late.interrupt = {.signal = 15, .from_terminal = true, .at_s = 20};
  CHECK(merged(job_of({early, late})).interrupt.at_s == doctest::Approx(20));
  early.interrupt = {.signal = 2, .at_s = 9};
  CHECK(merged(job_of({late, early})).interrupt.signal == 2);
  // A rank had failed before the other node was interrupted.
  auto a = run_on("a", 0);
  auto b = run_on("b", 2);
  dies(a, 0, kKilled, 5);
  b.outcome = O::interrupted;
  dies(b, 2, 15, 8);
  CHECK(merged(job_of({a, b})).outcome == O::exit);
}

TEST_CASE("a rank of another node that stands outside the call is found from the elected node's directory") {
  put_hung("far", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  put_hung("far/nodes/b", run_on("b", 2), {{2, Doing::waits}, {3, Doing::sleeps}});
  put_nodes("far", {node_b()});
  const auto built = build_report(model::RunDir("far"), {});
  REQUIRE(built);
  CHECK(built->notes.empty());
  CHECK(built->verdict.id == "hang.stuck");
  CHECK(built->verdict.ranks == model::RankSet{3});
  CHECK(built->verdict.host == "b");
  CHECK(built->verdict.sentence.find("rank 3 (host b)") != std::string::npos);
  REQUIRE(built->verdict.hosts.size() == 1);
  CHECK(built->verdict.hosts[0].host == "b");
  const auto report = nlohmann::json::parse(*base::read_file("far/report.json"));
  CHECK(report["ranks"][0]["host"] == "b");
  CHECK(report["nodes"].size() == 2);
  CHECK(report["nodes"][0]["node"] == "b");
  CHECK(report["findings"][0]["command"].get<std::string>().find("far/nodes/b/dumps/1-hang/rank-3") !=
        std::string::npos);
  // Node a alone blames no rank.
  put_hung("alone", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  CHECK(build_report(model::RunDir("alone"), {})->verdict.id == "hang.all_waiting");
}

TEST_CASE("a node that does not answer is named, and accused only if everything else points to it") {
  model::NodeEntry silent = node_b();
  silent.status = model::NodeStatus::silent;
  silent.silent_s = 20;
  silent.directory.clear();
  put_hung("mute", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  put_nodes("mute", {silent});
  const auto mute = build_report(model::RunDir("mute"), {});
  REQUIRE(mute);
  CHECK(mute->verdict.id == "hang.silent");
  CHECK(mute->verdict.ranks == (model::RankSet{2, 3}));
  CHECK(mute->verdict.confidence == model::Confidence::low);
  CHECK(mute->verdict.evidence.front() == "no answer from node b for 20 s: ranks 2-3");
  CHECK(mute->verdict.next.text.find("host b") != std::string::npos);

  // If a rank of this node is outside the call, it is the culprit, with less confidence.
  put_hung("other", run_on("a", 0), {{0, Doing::waits}, {1, Doing::sleeps}});
  put_nodes("other", {silent});
  const auto other = build_report(model::RunDir("other"), {});
  REQUIRE(other);
  CHECK(other->verdict.ranks == model::RankSet{1});
  CHECK(other->verdict.confidence == model::Confidence::medium);
  const auto page = *base::read_file("other/report.html");
  CHECK(page.find("no answer from node b for 20 s") != std::string::npos);
}

TEST_CASE("a node that answered and has no dump of that moment is not accused") {
  put_hung("nodump", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  auto b = run_on("b", 2);
  b.outcome = model::RunOutcome::running;
  put_file("nodump/nodes/b/run.json", to_json(b).dump());
  put_nodes("nodump", {node_b()});
  const auto built = build_report(model::RunDir("nodump"), {});
  REQUIRE(built);
  CHECK(built->verdict.id == "hang.all_waiting");
  CHECK(built->verdict.ranks.empty());
  CHECK(mentions(built->verdict.evidence, "no stacks of ranks 2-3: host b has no dump of that moment"));
  // A rank that had died before that moment is known to be dead.
  dies(b, 3, kKilled, 12);
  put_file("nodump/nodes/b/run.json", to_json(b).dump());
  const auto dead = build_report(model::RunDir("nodump"), {});
  REQUIRE(dead);
  CHECK(dead->verdict.id == "hang.dead");
  CHECK(dead->verdict.ranks == model::RankSet{3});
}

TEST_CASE("recorded calls of two nodes are compared") {
  put_hung("calls2", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  put_hung("calls2/nodes/b", run_on("b", 2), {{2, Doing::waits}, {3, Doing::waits}});
  put_nodes("calls2", {node_b()});
  for (int node = 0; node < 2; ++node) {
    model::CollectiveFacts facts;
    for (int rank = 2 * node; rank < 2 * node + 2; ++rank) {
      const model::CollectiveCall call{
          .sequence = 7, .op = "all_reduce", .count = rank == 3 ? 5U : 4U, .dtype = "float32", .age_s = 9};
      facts.ranks.push_back({.rank = rank});
      facts.ranks.back().communicators.push_back({.source = model::CallSource::nccl,
                                                  .id = "c0ffee",
                                                  .rank = rank,
                                                  .size = 4,
                                                  .called = 7,
                                                  .launched = 7,
                                                  .calls = {call}});
    }
    put_file(std::string("calls2/") + (node == 0 ? "" : "nodes/b/") + "dumps/1-hang/collectives.json",
             to_json(facts).dump());
  }
  const auto built = build_report(model::RunDir("calls2"), {});
  REQUIRE(built);
  CHECK(built->verdict.id == "hang.mismatch_size");
  CHECK(built->verdict.ranks == model::RankSet{3});
  CHECK(built->verdict.sentence.find("rank 3 (host b) called all_reduce of 5") != std::string::npos);
}

TEST_CASE("members of a communicator that spans nodes are kept once") {
  model::CollectiveFacts all;
  for (int rank = 0; rank < 4; ++rank) {
    all.ranks.push_back({.rank = 10 + rank});
    all.ranks.back().communicators = {{.source = model::CallSource::nccl, .id = "n", .rank = rank, .size = 4},
                                      {.id = "t", .rank = rank, .size = 4, .members = {10, 11, 12, 13}}};
  }
  complete_members(all);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(all.ranks[0].communicators[i].members == std::vector<base::Rank>{10, 11, 12, 13});
    CHECK(all.ranks[1].communicators[i].members.empty());
  }
}

TEST_CASE("damaged and hostile content below nodes/ is named and left out") {
  put_hung("bad", run_on("a", 0), {{0, Doing::waits}, {1, Doing::sleeps}});
  put_file("bad/nodes/cut/run.json", R"({"schema":"xpurun.run/1","processes":[{"pid")");
  put_file("bad/nodes/types/run.json", R"({"schema":"xpurun.run/1","processes":7,"host":[]})");
  put_hung("bad/nodes/twin", run_on("b", 1), {{1, Doing::waits}, {2, Doing::waits}});
  put_file("elsewhere/run.json", to_json(run_on("e", 2)).dump());
  fs::create_directory_symlink(fs::absolute("elsewhere"), "bad/nodes/link");
  std::vector<model::NodeEntry> entries;
  for (const char* name : {"cut", "types", "twin", "link", "gone", "../../elsewhere", ".."}) {
    entries.push_back({.node = name, .host = "h", .directory = std::string("nodes/") + name});
  }
  entries.push_back({.node = "twin", .directory = "nodes/twin"});
  entries.push_back({});
  put_nodes("bad", entries);
  const auto built = build_report(model::RunDir("bad"), {});
  REQUIRE(built);
  CHECK(built->verdict.ranks == model::RankSet{1});
  for (const char* what : {"node cut:", "node types:", "node link: 'nodes/link' is not a directory",
                           "node gone:", "'nodes/../../elsewhere' is not", "'nodes/..' is not",
                           "a second entry", "rank 1 is on node a and on node twin"}) {
    CAPTURE(what);
    CHECK(mentions(built->notes, what));
  }
  for (const char* text : {"", "[]", R"({"schema":"xpurun.nodes/1","nodes":[{"ranks":"all"}]})"}) {
    put_file("bad/nodes.json", text);
    const auto alone = build_report(model::RunDir("bad"), {});
    REQUIRE(alone);
    CHECK(mentions(alone->notes, "nodes.json"));
  }
}

TEST_CASE("run directories side by side need no nodes.json") {
  put_hung("side/a", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  put_hung("side/b", run_on("b", 2, kStart + kSecond), {{2, Doing::sleeps}, {3, Doing::waits}});
  const std::vector<model::RunDir> dirs = {model::RunDir("side/a"), model::RunDir("side/b")};
  const auto built = build_report(dirs, model::RunDir("side/out"), {});
  REQUIRE(built);
  CHECK(built->verdict.ranks == model::RankSet{2});
  CHECK(base::file_exists("side/out/report.html"));
  CHECK_FALSE(base::file_exists("side/a/report.html"));
  const auto report = nlohmann::json::parse(*base::read_file("side/out/report.json"));
  CHECK(report.dump().find("nodes.clocks") != std::string::npos);
  CHECK(report["nodes"][1]["clock"] == "this node");

  auto other = run_on("c", 2);
  other.world_size = 8;
  put_file("side/c/run.json", to_json(other).dump());
  other = run_on("d", 2);
  other.env["SLURM_JOB_ID"] = "2";
  put_file("side/d/run.json", to_json(other).dump());
  auto first = run_on("a", 0);
  first.env["SLURM_JOB_ID"] = "1";
  put_file("side/e/run.json", to_json(first).dump());
  struct Row {
    const char* a;
    const char* b;
    const char* cause;
  };
  for (const Row& row : {Row{"side/a", "side/c", "one has 4 ranks in all, the other 8"},
                         Row{"side/e", "side/d", "SLURM_JOB_ID is 1 in one and 2 in the other"},
                         Row{"side/a", "side/e", "both have a rank 0"}}) {
    const auto refused =
        build_report({model::RunDir(row.a), model::RunDir(row.b)}, model::RunDir("side/no"), {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().id == "E-NODES");
    CHECK(refused.error().cause == row.cause);
  }
}

TEST_CASE("what nodes on one host read in its log is told once, of the node whose process it names") {
  const auto put_log = [](const std::string& dir, double at_s) {
    model::KernelEvents log;
    for (const base::Pid pid : {777, 888}) {  // of no node, and of b
      log.events.push_back({.at_s = at_s, .pid = pid, .text = fmt::format("Killed process {}", pid)});
    }
    put_file(dir + "/dumps/1-hang/kernel.json", to_json(log).dump());
  };
  put_hung("one-host", run_on("a", 0), {{0, Doing::waits}, {1, Doing::waits}});
  auto b = run_on("b", 2);
  b.processes.push_back({.pid = 888, .role = model::ProcessRole::worker, .seen_s = 1});
  put_hung("one-host/nodes/b", b, {{2, Doing::sleeps}, {3, Doing::waits}});
  put_nodes("one-host", {node_b()});
  put_log("one-host", 19);
  put_log("one-host/nodes/b", 19.3);
  auto told = build_report(model::RunDir("one-host"), {})->verdict.evidence;
  std::erase_if(told, [](const auto& line) { return line.find("the kernel killed") == std::string::npos; });
  REQUIRE(told.size() == 2);
  CHECK((told[0].starts_with("host a: ") && told[0].find("(pid 777)") != std::string::npos));
  CHECK((told[1].starts_with("host b: ") && told[1].find("(pid 888)") != std::string::npos));
}
