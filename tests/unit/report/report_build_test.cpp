#include "common/base/os/io.h"
#include "common/model/collectives.h"
#include "report/build/build.h"
#include "report/build/stack_set.h"
#include "report/run/collect.h"
#include "tests/support/golden.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun;
using namespace xpurun::report;
namespace fs = std::filesystem;

namespace {

void put_report(const std::string& path, const std::string& text) {
  REQUIRE(base::make_dirs(fs::path(path).parent_path()));
  REQUIRE(base::write_file_atomic(path, text));
}

void put_stacks(const std::string& dir, model::ProcessStacks p, int64_t wall_ns) {
  p.wall_ns = wall_ns;
  put_report(dir + "/rank-" + std::to_string(p.rank) + ".stacks.json", model::stacks_file(p));
}

std::string read(const std::string& path) {
  auto text = base::read_file(path);
  REQUIRE(text);
  return *text;
}

bool report_mentions(const std::vector<std::string>& notes, const std::string& text) {
  for (const std::string& note : notes) {
    if (note.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

base::Result<BuildResult> build_stacks(const std::string& dir, const std::string& out_dir) {
  XPURUN_TRY_ASSIGN(const StackSet set, read_stack_set({dir}, Keep::nothing));
  return write_stack_set(set, out_dir, {});
}

}  // namespace

TEST_CASE("dumps of several hosts in nested directories are combined") {
  for (int rank = 0; rank < 4; ++rank) {
    put_stacks(rank < 2 ? "hosts/a/dumps/1-hang" : "hosts/b/deep/er", testing::sample_rank(rank), 1);
  }
  const auto built = build_stacks("hosts", "hosts-out");
  REQUIRE(built);
  CHECK(built->notes.empty());
  CHECK(built->files.size() == 7);
  CHECK(read("hosts-out/python.folded") ==
        "rank/main;main (train.py:52);load_batch (train.py:31) 1\n"
        "rank/main;main (train.py:52);step (train.py:44);all_reduce (d.py:9) 3\n");
  testing::expect_golden("report/stacks.txt", read("hosts-out/stacks.txt"));
}

TEST_CASE("the latest of several dumps of the same processes is shown") {
  put_stacks("again/1-hang", testing::sample_rank(0), 1'000);
  put_stacks("again/1-hang", testing::sample_rank(1), 1'000);
  put_stacks("again/2-hang", testing::sample_rank(1), 2'000);
  const auto built = build_stacks("again", "again-out");
  REQUIRE(built);
  CHECK(report_mentions(built->notes, "1-hang: left out"));
  CHECK(read("again-out/python.folded").ends_with(" 1\n"));
}

TEST_CASE("unreadable files are named, and the others are shown") {
  put_stacks("broken", testing::sample_rank(0), 1);
  put_report("broken/rank-1.stacks.json", R"({"schema":"xpurun.stacks/1","thr)");
  put_report("broken/rank-2.stacks.json", "");
  put_report("broken/rank-3.stacks.json", R"({"schema":"xpurun.stacks/1","rank":2000000000,"role":"rank"})");
  put_report("broken/dump.json", R"({"schema":"xpurun.dump/1","processes":[
      {"pid":7,"rank":2147483647,"role":"rank","status":"timeout"}]})");
  const auto built = build_stacks("broken", "broken-out");
  REQUIRE(built);
  CHECK(report_mentions(built->notes, "rank-1.stacks.json"));
  CHECK(report_mentions(built->notes, "rank-2.stacks.json"));
  CHECK(report_mentions(built->notes, "2000000000 is not believable"));
  const std::string folded = read("broken-out/merged.folded");
  CHECK(folded.find("all_reduce") != std::string::npos);
  CHECK(folded.find("rank/main;[no stacks: the stacks file cannot be read] 2\n") != std::string::npos);
  CHECK(collect({"broken"}).forest.ranks().ranks() == std::vector<base::Rank>{0, 1, 2});
}

TEST_CASE("a directory without stacks is an error that names the expected files") {
  REQUIRE(base::make_dirs("nothing"));
  const auto built = build_stacks("nothing", "nothing-out");
  REQUIRE_FALSE(built);
  CHECK(built.error().cause.find(".stacks.json") != std::string::npos);
  CHECK_FALSE(base::file_exists("nothing-out"));
  CHECK_FALSE(build_report(model::RunDir("nothing"), {}));
}

TEST_CASE("a run whose supervisor was killed, without any dump, still has a report") {
  put_report("killed/run.json",
             R"({"schema":"xpurun.run/1","id":"killed","outcome":"running","elapsed_s":12})");
  const auto built = build_report(model::RunDir("killed"), {});
  REQUIRE(built);
  CHECK(built->verdict.kind == model::VerdictKind::running);
  CHECK(base::file_exists("killed/verdict.json"));
  CHECK(read("killed/report.html").find("Content-Security-Policy") != std::string::npos);
  CHECK_FALSE(base::file_exists("killed/stacks"));
}

TEST_CASE("a truncated run.json and an unrecorded dump still give stacks") {
  put_report("cut/run.json", R"({"schema":"xpurun.run/1","id":"c)");
  put_stacks("cut/dumps/1-hang", testing::sample_rank(0), 1);
  put_report("cut/dumps/1-hang/dump.json",
             R"({"schema":"xpurun.dump/1","n":1,"why":"hang","host":"a","processes":[
      {"pid":100,"rank":0,"role":"rank","status":"ok","file":"rank-0.stacks.json"},
      {"pid":101,"rank":1,"role":"rank","status":"timeout","reason":"no answer in 100 ms"}],
      "ranks":[{"rank":2,"pid":102,"alive":false,"wait_status":9}]})");
  const auto built = build_report(model::RunDir("cut"), {});
  REQUIRE(built);
  CHECK(report_mentions(built->notes, "run.json"));
  const auto j = nlohmann::json::parse(read("cut/report.json"));
  CHECK(j["dump"] == "dumps/1-hang");
  CHECK(j["ranks"].size() == 3);
  CHECK(j["classes"].size() == 3);
  const std::string folded = read("cut/stacks/merged.folded");
  CHECK(folded.find("[no stacks: no answer in 100 ms] 1\n") != std::string::npos);
  CHECK(folded.find("[no stacks: killed by SIGKILL] 1\n") != std::string::npos);
}

TEST_CASE("a requested dump is shown, but does not decide the verdict of a run that ended cleanly") {
  put_report("asked/run.json", R"({"schema":"xpurun.run/1","id":"asked","outcome":"exit","child_status":0,
      "dumps":[{"n":1,"why":"request","dir":"dumps/1-request","at_s":3}]})");
  put_stacks("asked/dumps/1-request", testing::sample_rank(0), 1);
  const auto built = build_report(model::RunDir("asked"), {});
  REQUIRE(built);
  CHECK(built->verdict.kind == model::VerdictKind::none);
  CHECK(nlohmann::json::parse(read("asked/report.json"))["dump"] == "dumps/1-request");
  CHECK(base::file_exists("asked/stacks/merged.svg"));
}

TEST_CASE("the calls recorded at a dump decide, and a damaged record is noted") {
  put_report("calls/run.json", R"({"schema":"xpurun.run/1","id":"calls","outcome":"hang","world_size":2,
      "stalls":[{"n":1,"at_s":20,"dump":"dumps/1-hang"}]})");
  put_report("calls/dumps/1-hang/dump.json",
             R"({"schema":"xpurun.dump/1","n":1,"why":"hang","host":"a","ranks":[
      {"rank":0,"pid":100,"state":"S","still_s":9},{"rank":1,"pid":101,"state":"S","still_s":9}]})");
  model::CollectiveFacts facts;
  for (int rank = 0; rank < 2; ++rank) {
    const model::CollectiveCall call{.sequence = 3, .op = rank == 0 ? "all_reduce" : "barrier", .age_s = 9};
    facts.ranks.push_back({.rank = rank});
    facts.ranks.back().communicators.push_back({.source = model::CallSource::torch,
                                                .id = "0",
                                                .name = "default",
                                                .rank = rank,
                                                .size = 2,
                                                .members = {0, 1},
                                                .called = 3,
                                                .done = 2,
                                                .done_known = true,
                                                .calls = {call}});
  }
  put_report("calls/dumps/1-hang/collectives.json", to_json(facts).dump());
  auto built = build_report(model::RunDir("calls"), {});
  REQUIRE(built);
  CHECK(built->verdict.id == "hang.mismatch");
  CHECK(nlohmann::json::parse(read("calls/report.json"))["verdict"]["collective"]["sequence"] == 3);
  const std::string page = read("calls/report.html");
  CHECK(page.find("What each rank called") != std::string::npos);
  CHECK(page.find("<td>barrier</td>") != std::string::npos);
  put_report("calls/dumps/1-hang/collectives.json",
             R"({"schema":"xpurun.collectives/1","ranks":[{"rank":"x"}]})");
  built = build_report(model::RunDir("calls"), {});
  REQUIRE(built);
  CHECK(report_mentions(built->notes, "collectives.json"));
}

TEST_CASE("files are read in the order of their ranks") {
  for (int rank : {10, 9, 100}) {
    put_stacks("order", testing::process(rank, testing::thread({testing::py("f", 1)})), 1);
  }
  CHECK(stack_files_in("order") == std::vector<std::string>{"order/rank-9.stacks.json",
                                                            "order/rank-10.stacks.json",
                                                            "order/rank-100.stacks.json"});
}
