#include "launcher/dumps/dump_coordinator.h"
#include "tests/unit/launcher/fake_dump.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::FakeDump;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

// Keeps all operations until the test answers them.
struct CoordinatorStorage final : Storage {
  void submit(FileOperation, Done done) override { pending.push_back(std::move(done)); }
  void when_written(double, std::function<void(Written)> then) override { then(Written::stalled); }
  std::string problem() const override { return "stalled"; }
  std::vector<Done> pending;
};

struct CoordinatorScene : test::JobScene {
  FakeDump* dump = nullptr;  // the newest
  int made = 0;
  bool may_go_on = true;
  bool has_program = true;
  std::string begun_in;  // number and directory of the last dump that has begun
  std::vector<std::vector<base::Pid>> gpu_processes;
  CoordinatorStorage stalled;
  std::string calls_in;  // where the calls of the last dump went
  model::CollectiveFacts calls{.ranks = {{.rank = 1}}};
  DumpCoordinator dumps;

  explicit CoordinatorScene(bool disk_stalls = false)
      : dumps({loop, disk_stalls ? static_cast<Storage&>(stalled) : storage, journal, table, options},
              {.host = "node-a"},
              {.discover = [] {},
               .observations =
                   [] {
                     model::RankObservation seen;
                     seen.rank = 1;
                     return std::vector<model::RankObservation>{seen};
                   },
               .save_calls =
                   [this](const std::string& directory) {
                     calls_in = directory;
                     return calls;
                   },
               .release = [this](base::Pid pid) { tell(fmt::format("release {}", pid - test::kCommand)); },
               .gpu_processes = [this] { return gpu_processes; },
               .begun =
                   [this](const model::DumpManifest& begun, const std::string& directory) {
                     begun_in = fmt::format("{} {}", begun.n, directory);
                   },
               .stacks_written = teller("stacks written"),
               .dumped =
                   [this](base::MonoNs took, bool for_stall) {
                     tell(fmt::format("dumped in {} s{}", took / 1'000'000'000,
                                      for_stall ? " for the stall" : ""));
                   },
               .may_go_on = [this] { return may_go_on; },
               .idle = teller("idle")},
              {.program = [this]() -> base::Result<std::string> {
                 if (!has_program) {
                   return base::fail("no xpurun-stackdump");
                 }
                 return std::string("stackdump");
               },
               .make =
                   [this](DumpPlan plan, const DumpJob::HelperStarted&, DumpJob::Done done) {
                     auto out = std::make_unique<FakeDump>(std::move(plan), std::move(done));
                     dump = out.get();
                     ++made;
                     return out;
                   }}) {}

  DumpRequest wanted(model::DumpReason why, const std::string& who = "") {
    DumpRequest request{.why = why, .trigger = 1, .reply = {}};
    if (!who.empty()) {
      request.reply = [this, who](const std::string& dir, size_t n) {
        tell(fmt::format("{}: {} of {} processes", who, dir, n));
      };
    }
    return request;
  }
};

}  // namespace

TEST_CASE("requests that arrive during a dump are served together by one more dump") {
  CoordinatorScene s;
  s.dumps.request(s.wanted(model::DumpReason::request, "a"));
  CHECK(s.dumps.busy());
  s.run_for(0.001);
  REQUIRE(s.dump->started);
  CHECK(s.begun_in == "1 run/dumps/1-request");
  REQUIRE(s.dump->plan.targets.size() == 3);  // the ranks, and the command
  CHECK(s.dump->plan.targets[1].rank == 1);
  s.dumps.request(s.wanted(model::DumpReason::signal, "b"));
  s.dumps.request(s.wanted(model::DumpReason::request, "c"));
  CHECK(s.made == 1);
  s.run_for(4);
  s.dump->end();
  s.run_for(0.001);
  CHECK(s.told() == Told{"dumped in 4 s", "a: dumps/1-request of 2 processes"});
  CHECK(s.made == 2);
  s.dump->end();
  s.run_for(0.001);
  CHECK(s.told() == Told{"dumped in 0 s", "idle", "b: dumps/2-signal of 2 processes",
                         "c: dumps/2-signal of 2 processes"});
  CHECK_FALSE(s.dumps.busy());
  CHECK(s.journal.manifest().dumps.size() == 2);
  const auto manifest = model::load_dump_manifest("run/dumps/1-request/dump.json");
  REQUIRE(manifest);
  CHECK(manifest->spread_ns == 5);
  CHECK(manifest->trigger_rank == 1);
  CHECK(manifest->ranks.size() == 1);
  CHECK(s.calls_in == "run/dumps/2-signal");
}

TEST_CASE("on a hang a rank on whose GPU another process computes is not asked for its kernels") {
  CoordinatorScene s;
  std::vector<base::Pid> ranks;
  for (const TrackedProcess* p : s.table.living_ranks()) {
    ranks.push_back(p->record.pid);
  }
  REQUIRE(ranks.size() == 2);
  s.gpu_processes = {{ranks[0]}, {ranks[1], 99'999}};
  s.dumps.request(s.wanted(model::DumpReason::hang));
  REQUIRE(s.dump->plan.targets.size() == 3);
  CHECK(s.dump->plan.targets[0].gpu_stacks == model::GpuStacks::automatic);
  CHECK(s.dump->plan.targets[1].gpu_stacks == model::GpuStacks::never);
}

TEST_CASE("on a hang only the rank that has not entered the call of the others is asked for its kernels") {
  CoordinatorScene s;
  const auto entered = [](base::Rank rank, uint64_t called) {
    model::Communicator world{.source = model::CallSource::torch, .id = "1.0", .rank = rank, .size = 2};
    world.members = {0, 1};
    world.called = called;
    for (uint64_t i = 1; i <= called; ++i) {
      const auto stage = i <= 3 ? model::CallStage::done : model::CallStage::called;
      world.calls.push_back(
          {.sequence = i, .op = "all_reduce", .count = 8, .dtype = "float32", .stage = stage});
    }
    return model::RankCollectives{.rank = rank, .communicators = {world}};
  };
  s.calls.ranks = {entered(0, 4), entered(1, 3)};
  s.dumps.request(s.wanted(model::DumpReason::hang));
  REQUIRE(s.dump->plan.targets.size() == 3);
  CHECK(s.dump->plan.targets[0].gpu_stacks == model::GpuStacks::never);
  CHECK(s.dump->plan.targets[1].gpu_stacks == model::GpuStacks::automatic);
  CHECK(s.dump->plan.stacks_written);
  s.run_for(0.001);
  s.dump->end();
  s.run_for(0.001);
  s.dumps.request(s.wanted(model::DumpReason::request));
  CHECK(s.dump->plan.targets[1].gpu_stacks == model::GpuStacks::never);
  CHECK_FALSE(s.dump->plan.stacks_written);
}

TEST_CASE("after the end of the command, waiting requests are not served") {
  CoordinatorScene s;
  s.dumps.request(s.wanted(model::DumpReason::request));
  s.dumps.request(s.wanted(model::DumpReason::request));
  s.may_go_on = false;
  s.run_for(0.001);
  s.dump->end();
  s.run_for(0.001);
  CHECK(s.made == 1);
  CHECK(s.told() == Told{"dumped in 0 s", "idle"});
}

TEST_CASE("a crashed process is held until its dump is done") {
  CoordinatorScene s;
  s.journal.manifest().crashes.push_back({.pid = kRank1});
  CHECK_FALSE(s.dumps.request_for_crash({.pid = kRank1, .tid = 9, .ucontext = 0x10},
                                        s.wanted(model::DumpReason::crash)));
  s.run_for(0.001);
  CHECK(s.dump->plan.targets[1].crash_tid == 9);
  CHECK(s.dump->plan.targets[1].crash_ucontext == 0x10);
  CHECK(s.told().empty());
  SUBCASE("a crash during the dump waits for a dump that shows the crash") {
    CHECK_FALSE(s.dumps.request_for_crash({.pid = kRank0, .tid = 8}, s.wanted(model::DumpReason::crash)));
    s.dump->end();
    s.run_for(0.001);
    CHECK(s.told() == Told{"release 2", "dumped in 0 s"});
    REQUIRE(s.made == 2);
    CHECK(s.dump->plan.targets[0].crash_tid == 8);
    s.dump->end();
    s.run_for(0.001);
    CHECK(s.told() == Told{"release 1", "dumped in 0 s", "idle"});
  }
  SUBCASE("a crash during the last dump goes on when that dump ends") {
    CHECK_FALSE(s.dumps.request_for_crash({.pid = kRank0}, s.wanted(model::DumpReason::crash)));
    s.may_go_on = false;
    s.dump->end();
    s.run_for(0.001);
    CHECK(s.told() == Told{"release 1", "release 2", "dumped in 0 s", "idle"});
    CHECK(s.made == 1);
  }
  SUBCASE("a crash right after the dump needs no dump of its own") {
    s.dump->end();
    s.run_for(1);
    CHECK(s.journal.manifest().crashes[0].dump == "dumps/1-crash");
    CHECK(s.dumps.request_for_crash({.pid = kRank0}, s.wanted(model::DumpReason::crash)) == "dumps/1-crash");
    CHECK(s.made == 1);
    s.run_for(2);
    CHECK_FALSE(s.dumps.request_for_crash({.pid = kRank0}, s.wanted(model::DumpReason::crash)));
    CHECK(s.made == 2);
  }
  SUBCASE("a crash right after a dump of something else gets a dump of its own") {
    s.dump->end();
    s.run_for(3);
    s.dumps.request(s.wanted(model::DumpReason::hang));
    s.run_for(0.001);
    s.dump->end();
    s.run_for(0.001);
    CHECK(s.dumps.request_for_crash({.pid = kRank0}, s.wanted(model::DumpReason::terminated)) ==
          "dumps/2-hang");
    CHECK_FALSE(s.dumps.request_for_crash({.pid = kRank0}, s.wanted(model::DumpReason::crash)));
    CHECK(s.made == 3);
  }
  SUBCASE("a process that ends meanwhile needs no release") {
    s.dumps.process_ended(kRank1);
    s.dump->end();
    s.run_for(0.001);
    CHECK(s.told() == Told{"dumped in 0 s", "idle"});
  }
}

TEST_CASE("a dump whose directory is not created within a second is not started") {
  CoordinatorScene s(/*disk_stalls=*/true);
  (void)s.dumps.request_for_crash({.pid = kRank1}, s.wanted(model::DumpReason::crash, "a"));
  s.run_for(0.9);
  CHECK(s.told().empty());
  s.run_for(0.2);
  CHECK_FALSE(s.dumps.busy());
  CHECK(s.begun_in.empty());
  CHECK(s.told() == Told{"release 2", "a: dumps/1-crash of 0 processes", "dumped in 1 s", "idle"});
  // The reply comes too late.
  s.stalled.pending.front()(base::Status());
  s.run_for(0.001);
  CHECK(s.told().empty());
  CHECK_FALSE(s.dumps.busy());
}

TEST_CASE("a dump without its helper program has no targets, and ends") {
  CoordinatorScene s;
  s.has_program = false;
  s.dumps.request(s.wanted(model::DumpReason::request));
  CHECK(s.dump->plan.targets.empty());
  s.run_for(0.001);
  s.dumps.give_up("the disk");
  s.run_for(0.001);
  CHECK(s.told() == Told{"dumped in 0 s", "idle"});
}

TEST_CASE("the dump of a stall belongs to the stall, and is judged again when the stall escalates") {
  CoordinatorScene s;
  s.journal.manifest().stalls.push_back({.n = 1});
  s.dumps.request(s.wanted(model::DumpReason::hang));
  s.run_for(0.001);
  CHECK(s.dump->plan.deadline_s == kDumpWithDebuggersS);
  s.dump->plan.stacks_written({.processes = {{.pid = test::kRank0}}});
  CHECK(s.told() == Told{"stacks written"});
  CHECK(s.journal.open_stall()->dump == "dumps/1-hang");
  CHECK(model::load_dump_manifest("run/dumps/1-hang/dump.json")->processes.size() == 1);
  CHECK_FALSE(s.dumps.look_again("dumps/1-hang", true));  // not yet
  s.dump->end();
  s.run_for(0.001);
  CHECK(s.told() == Told{"dumped in 0 s for the stall", "idle"});
  CHECK(model::load_dump_manifest("run/dumps/1-hang/dump.json")->processes.size() == 2);
  CHECK(s.journal.open_stall()->dump == "dumps/1-hang");
  s.run_for(20);
  CHECK_FALSE(model::load_dump_manifest("run/dumps/1-hang/dump.json")->escalated);
  CHECK(s.dumps.look_again("dumps/1-hang", true));
  const auto manifest = model::load_dump_manifest("run/dumps/1-hang/dump.json");
  CHECK(manifest->escalated);
  CHECK(manifest->at_s == doctest::Approx(s.now_s()));
  CHECK_FALSE(s.dumps.look_again("dumps/9-hang", true));
}

TEST_CASE("a recent dump counts for the given time") {
  CoordinatorScene s;
  CHECK_FALSE(s.dumps.dumped_within(3));
  s.dumps.request(s.wanted(model::DumpReason::request));
  CHECK(s.dumps.dumped_within(3));
  s.run_for(0.001);
  s.dump->end();
  s.run_for(2);
  CHECK(s.dumps.dumped_within(3));
  s.run_for(2);
  CHECK_FALSE(s.dumps.dumped_within(3));
}

TEST_CASE("a dump in progress, or a recent one, serves a request that may share it") {
  CoordinatorScene s;
  s.dumps.request_or_share(s.wanted(model::DumpReason::death, "a"), 3);
  s.dumps.request_or_share(s.wanted(model::DumpReason::death, "b"), 3);
  s.run_for(0.001);
  s.dump->end();
  s.run_for(2);
  CHECK(s.told() ==
        Told{"dumped in 0 s", "idle", "a: dumps/1-death of 2 processes", "b: dumps/1-death of 2 processes"});
  s.dumps.request_or_share(s.wanted(model::DumpReason::death, "c"), 3);
  s.run_for(0.001);
  CHECK(s.told() == Told{"c: dumps/1-death of 2 processes"});
  CHECK(s.made == 1);
  s.run_for(2);
  s.dumps.request_or_share(s.wanted(model::DumpReason::death), 3);
  CHECK(s.made == 2);
}

TEST_CASE("a dump of a stall that has outlasted --busy-timeouts says so from the start") {
  CoordinatorScene s;
  DumpRequest request = s.wanted(model::DumpReason::hang);
  request.escalated = true;
  s.dumps.request(std::move(request));
  s.run_for(0.001);
  s.dump->end();
  s.run_for(0.001);
  CHECK(model::load_dump_manifest("run/dumps/1-hang/dump.json")->escalated);
}

TEST_CASE("the files of many stalls do not fill the disk") {
  CoordinatorScene s;
  constexpr auto kMost = DumpCoordinator::kMostStallDumps;
  const auto dump_stall = [&](const model::Stall& stall) {
    DumpRequest request = s.wanted(model::DumpReason::hang);
    request.stall = stall.n;
    s.dumps.request(std::move(request));
    s.run_for(0.001);
    s.dump->end();
    s.run_for(0.001);
  };
  const auto kept = [](int n) { return base::file_exists(fmt::format("run/dumps/{}-hang/dump.json", n)); };
  dump_stall(s.journal.add_stall({}, 0));  // of an idle rank, open to the end
  for (size_t i = 0; i < kMost + 1; ++i) {
    model::Stall& stall = s.journal.add_stall({}, 0);
    const int n = stall.n;
    dump_stall(stall);
    s.journal.stall(n)->cleared_s = 1;
  }
  const int last = static_cast<int>(kMost) + 2;
  CHECK(kept(1));
  CHECK_FALSE(kept(2));
  CHECK_FALSE(kept(3));
  CHECK(kept(4));
  CHECK(kept(last));
  CHECK(s.journal.manifest().dumps.size() == static_cast<size_t>(last));
}
