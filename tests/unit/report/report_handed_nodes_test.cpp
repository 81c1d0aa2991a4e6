// The report on a node that has not judged, with what all nodes have sent beside its own data.
#include "common/base/os/io.h"
#include "report/build/build.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun;
using namespace xpurun::report;
namespace fs = std::filesystem;

namespace {

void put_run(const std::string& dir, const std::string& host, base::Rank first,
             const model::Verdict& verdict) {
  model::RunManifest run{.id = "job-" + host, .host = host, .started_wall_ns = 1'795'230'873'000'000'000};
  run.elapsed_s = 60;
  run.world_size = 4;
  run.outcome = model::RunOutcome::running;
  for (base::Rank r = first; r < first + 2; ++r) {
    run.processes.push_back({.pid = 100 + r, .role = model::ProcessRole::rank, .rank = r, .seen_s = 1});
  }
  run.verdict = verdict;
  if (host == "b") {
    run.job_report_host = "a";
    run.job_report_dir = "/runs/a";
  }
  REQUIRE(base::make_dirs(dir));
  REQUIRE(base::write_file_atomic(dir + "/run.json", to_json(run).dump()));
}

void put_nodes(const std::string& dir) {
  model::Nodes nodes{.request = "1", .this_node = "b", .elected = "a"};
  nodes.nodes.push_back({.node = "a", .host = "a", .node_rank = 0, .ranks = {0, 1}, .directory = "nodes/a"});
  nodes.nodes.push_back({.node = "b", .host = "b", .node_rank = 1, .ranks = {2, 3}});
  REQUIRE(base::write_file_atomic(dir + "/nodes.json", to_json(nodes).dump()));
}

bool says_elsewhere(const nlohmann::json& report) {
  for (const auto& finding : report["findings"]) {
    if (finding["id"] == "nodes.elsewhere") {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("a node that was handed what all nodes have sent shows all ranks, and keeps the job's verdict") {
  model::Verdict verdict{.id = "hang.stuck", .kind = model::VerdictKind::hang};
  verdict.ranks = {3};
  model::say(verdict, "rank 3 sleeps, says the judge");
  put_run("handed", "b", 2, verdict);
  put_run("handed/nodes/a", "a", 0, verdict);
  put_nodes("handed");
  struct Row {
    const char* about;
    void (*change)();
    size_t ranks;
    bool elsewhere;
    bool notes;
  };
  for (const Row& row : {
           Row{"whole", [] {}, 4, false, false},
           Row{"a node's data is damaged",
               [] { REQUIRE(base::write_file_atomic("handed/nodes/a/run.json", "{")); }, 2, false, true},
           Row{"the list is damaged", [] { REQUIRE(base::write_file_atomic("handed/nodes.json", "[1")); }, 2,
               true, true},
           Row{"no list", [] { fs::remove("handed/nodes.json"); }, 2, true, false},
       }) {
    CAPTURE(row.about);
    row.change();
    const auto built = build_report(model::RunDir("handed"), {});
    REQUIRE(built);
    CHECK(built->verdict.sentence == verdict.sentence);
    CHECK(built->verdict.ranks == model::RankSet{3});
    CHECK(built->notes.empty() != row.notes);
    const auto report = nlohmann::json::parse(*base::read_file("handed/report.json"));
    CHECK(report["ranks"].size() == row.ranks);
    CHECK(says_elsewhere(report) == row.elsewhere);
  }
}
