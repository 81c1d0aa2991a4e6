#include "common/base/os/procfs.h"
#include "launcher/runs/prune.h"
#include "launcher/runs/run_lock.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
namespace fs = std::filesystem;

namespace {

constexpr int64_t kHour = 3600LL * 1'000'000'000;

std::string host() {
  char buf[256] = {};
  ::gethostname(buf, sizeof buf - 1);
  return buf;
}

void make_run(const std::string& dir, const std::string& id, int64_t started,
              model::RunOutcome outcome = model::RunOutcome::exit, const std::string& on = host()) {
  fs::create_directories(dir + "/dumps/1-hang");
  std::ofstream(dir + "/dumps/1-hang/dump.json") << "{}";
  model::RunManifest m;
  m.id = id;
  m.host = on;
  m.outcome = outcome;
  m.child_status = base::WaitStatus(0);
  m.started_wall_ns = started;
  std::ofstream(dir + "/run.json") << to_json(m).dump();
}

std::vector<std::string> chosen(const std::vector<RunEntry>& runs, const PruneRules& rules, int64_t now) {
  std::vector<std::string> out;
  for (const PruneChoice& c : select_runs(runs, rules, now)) {
    out.push_back(c.run->name);
  }
  return out;
}

}  // namespace

TEST_CASE("the runs selected for removal") {
  std::vector<RunEntry> runs;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(
        {.name = std::string(1, static_cast<char>('a' + i)), .bytes = 100, .ended_wall_ns = -i * kHour});
  }
  using Names = std::vector<std::string>;
  CHECK(chosen(runs, {}, 0).empty());
  CHECK(chosen(runs, {.keep = 2}, 0) == Names{"c", "d"});
  CHECK(chosen(runs, {.older_than_s = 2.5 * 3600}, 0) == Names{"d"});
  CHECK(chosen(runs, {.max_bytes = 250}, 0) == Names{"c", "d"});
  CHECK(chosen(runs, {.keep = 3, .older_than_s = 1.5 * 3600}, 0) == Names{"c", "d"});
  CHECK(chosen(runs, {.max_bytes = 0}, 0) == Names{"a", "b", "c", "d"});
  SUBCASE("never a live run") {
    runs[2].life = RunLife::running;
    runs[3].life = RunLife::unknown;
    CHECK(chosen(runs, {.max_bytes = 0}, 0) == Names{"a", "b"});
    runs[1].life = RunLife::left;
    runs[0].life = RunLife::killed;
    CHECK(chosen(runs, {.max_bytes = 0}, 0) == Names{"a"});
  }
}

TEST_CASE("the criteria for a run directory") {
  make_run("runs/r1", "r1", 1);
  make_run("runs/r2", "r2", 2);
  make_run("runs/copied", "r1", 3);
  make_run("elsewhere", "elsewhere", 4);
  fs::create_directory_symlink("../elsewhere", "runs/elsewhere");
  fs::create_directory_symlink("r2", "runs/latest");
  fs::create_directories("runs/project");
  std::ofstream("runs/project/run.json") << R"({"schema":"other/1"})";
  std::ofstream("runs/file") << "";
  make_run("runs/going", "going", 5, model::RunOutcome::running, "another-host");
  make_run("runs/killed", "killed", 6, model::RunOutcome::running);
  const auto runs = list_runs("runs");
  REQUIRE(runs);
  REQUIRE(runs->size() == 4);
  CHECK((*runs)[0].name == "killed");
  CHECK((*runs)[0].life == RunLife::killed);
  CHECK((*runs)[1].life == RunLife::unknown);
  CHECK((*runs)[2].name == "r2");
  CHECK(outcome_text((*runs)[2]) == "exit 0");
  CHECK_FALSE(list_runs("nowhere"));
}

TEST_CASE("a lock that outlives the supervisor does not hide an abandoned job") {
  make_run("left", "left", 1, model::RunOutcome::running);
  const auto save = [](base::Pid supervisor, uint64_t start_ticks) {
    auto m = *model::load_run_manifest("left/run.json");
    m.supervisor_pid = supervisor;
    m.processes = {{.pid = ::getpid(), .start_ticks = start_ticks}};
    std::ofstream("left/run.json") << to_json(m).dump();
  };
  const auto life = [] { return read_run("left")->life; };
  constexpr base::Pid kNobody = 5000001;
  const uint64_t started = base::ProcFs().stat(::getpid())->start_ticks;
  auto lock = RunLock::take("left");
  REQUIRE(lock);
  save(kNobody, started);
  CHECK(life() == RunLife::left);
  // As from another PID namespace, whose processes cannot be found.
  save(kNobody, started + 1);
  CHECK(life() == RunLife::running);
  lock = RunLock::take("elsewhere-or-nowhere");
  CHECK(life() == RunLife::killed);
  save(kNobody, started);
  CHECK(life() == RunLife::left);
  fs::remove_all("left");
}

TEST_CASE("removal deletes only the run directory") {
  make_run("all/r1", "r1", 1);
  make_run("all/r2", "r2", 2);
  fs::create_directories("precious/inside");
  std::ofstream("precious/inside/file") << "x";
  fs::create_directory_symlink("../../precious", "all/r1/link");
  fs::create_directory_symlink("../../../precious", "all/r1/dumps/link");
  fs::create_directory_symlink("r1", "all/latest");
  auto runs = list_runs("all");
  REQUIRE(runs);
  REQUIRE(runs->size() == 2);
  const RunEntry r1 = (*runs)[1];
  SUBCASE("not while it is locked") {
    const auto lock = RunLock::take("all/r1");
    REQUIRE(lock);
    CHECK(RunLock::held("all/r1"));
    CHECK_FALSE(remove_run("all", r1));
    CHECK(fs::exists("all/r1/dumps/1-hang/dump.json"));
    CHECK(read_run("all/r1")->life == RunLife::running);
  }
  SUBCASE("not if the directory was replaced") {
    make_run("all/r1", "r1", 77);
    CHECK_FALSE(remove_run("all", r1));
    fs::remove_all("all/r1");
    fs::create_directory_symlink("../precious", "all/r1");
    CHECK_FALSE(remove_run("all", r1));
    CHECK(fs::exists("precious/inside/file"));
  }
  SUBCASE("otherwise completely") {
    const auto removed = remove_run("all", r1);
    CHECK_MESSAGE(removed, (removed ? "" : removed.error().what));
    CHECK_FALSE(fs::exists("all/r1"));
    CHECK(fs::exists("precious/inside/file"));
    CHECK(fs::exists("all/r2/run.json"));
    runs->pop_back();
    mend_latest("all", *runs);
    CHECK(fs::read_symlink("all/latest") == "r2");
    mend_latest("all", {});
    CHECK(fs::read_symlink("all/latest") == "r2");
    REQUIRE(remove_run("all", runs->front()));
    mend_latest("all", {});
    CHECK_FALSE(fs::is_symlink("all/latest"));
  }
  fs::remove_all("all");
  fs::remove_all("precious");
}
