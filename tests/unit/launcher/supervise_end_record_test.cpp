// RecordedCalls and EndRecord.
#include "launcher/supervise/handlers/end_record.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

struct EndScene : test::JobScene {
  JobState job{.phase = JobPhase::settled, .command_status = base::WaitStatus::of_exit(1)};
  bool restart_pending = false;
  model::Interrupt interrupt;
  model::CollectiveFacts nccl;
  RecordedCalls calls{
      {table, storage},
      {.nccl = [this] { return nccl; },
       .add_torch = [](model::CollectiveFacts& facts) { facts.ranks.push_back({.rank = 1, .pid = kRank1}); },
       .add_mpi = [](model::CollectiveFacts&) {},
       .steps = [](base::Rank) { return uint64_t{0}; }}};
  EndRecord end{{journal, table, job, calls},
                {.find_deaths = teller("deaths"),
                 .restart_pending = [this] { return restart_pending; },
                 .interrupt = [this] { return interrupt; },
                 .finish_files = teller("files"),
                 .recorded = teller("recorded")}};

  EndScene() { std::filesystem::remove("run/collectives.json"); }
  const model::RunManifest& run() { return journal.manifest(); }
  bool has_calls() const { return base::file_exists("run/collectives.json"); }
};

}  // namespace

TEST_CASE("calls of both sources are put together, without replaced processes") {
  EndScene s;
  s.nccl.ranks.push_back({.rank = 0, .pid = kRank0});
  REQUIRE(s.calls.all().ranks.size() == 2);
  CHECK(s.calls.all().ranks[0].pid == kRank0);
  s.fake.end(kRank0);
  s.table.mark_dead(kRank0);
  s.fake.add(test::kCommand + 7, test::kCommand, "python3", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2");
  s.table.refresh();
  const auto facts = s.calls.all();
  REQUIRE(facts.ranks.size() == 1);
  CHECK(facts.ranks[0].pid == kRank1);
  s.calls.save("run/collectives.json");
  s.run_for(0.1);
  const auto saved = model::load_collective_facts("run/collectives.json");
  REQUIRE(saved);
  CHECK(saved->ranks.size() == 1);
}

TEST_CASE("the end of the job completes run.json") {
  EndScene s;
  s.end.write();
  s.run_for(0.1);
  CHECK(s.told() == Told{"deaths", "files", "recorded"});
  CHECK(s.run().outcome == model::RunOutcome::exit);
  CHECK(s.run().exit_status == 1);
  CHECK(s.run().world_size == 2);
  CHECK(base::file_exists("run/run.json"));
  CHECK_FALSE(s.has_calls());
}

TEST_CASE("ranks that live at the end are recorded as left, unless xpurun ends the job") {
  EndScene s;
  s.fake.end(kRank0);
  s.table.mark_dead(kRank0);
  const auto left = [&s](base::Pid pid) {
    const auto& all = s.run().processes;
    const auto p = std::find_if(all.begin(), all.end(), [pid](const auto& r) { return r.pid == pid; });
    return p != all.end() && p->left;
  };
  SUBCASE("the command has ended by itself") {
    s.end.write();
    CHECK_FALSE(left(kRank0));
    CHECK(left(kRank1));
    CHECK_FALSE(left(test::kCommand));
  }
  SUBCASE("xpurun has ended it") {
    s.job.ended_by_us = true;
    s.end.write();
    CHECK_FALSE(left(kRank1));
  }
  SUBCASE("xpurun only watched it") {
    s.job.detached = true;
    s.end.write();
    CHECK_FALSE(left(kRank1));
  }
}

TEST_CASE("the calls at the end are kept where a dump can be compared with them") {
  EndScene s;
  s.journal.manifest().dumps.push_back({.n = 1, .dir = "dumps/1-death"});
  s.end.write();
  s.run_for(0.1);
  CHECK(s.has_calls());
}

TEST_CASE("the outcome tells a restart that has not come, and an interruption") {
  EndScene s;
  SUBCASE("the launcher ended instead of starting the ranks anew") {
    s.restart_pending = true;
    s.end.write();
    CHECK(s.run().outcome == model::RunOutcome::hang);
  }
  SUBCASE("it ended well") {
    s.restart_pending = true;
    s.job.command_status = base::WaitStatus::of_exit(0);
    s.end.write();
    CHECK(s.run().outcome == model::RunOutcome::exit);
  }
  SUBCASE("the user has interrupted it") {
    s.interrupt = {.signal = 15};
    s.end.write();
    CHECK(s.run().outcome == model::RunOutcome::interrupted);
  }
}
