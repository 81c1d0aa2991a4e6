#include "launcher/watch/watcher.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

// The test's data about a rank.
struct Rank {
  bool moves = true;
  base::MonoNs forgiven = 0;
  int samples = 0;
  double hang_timeout_s = 0;
  std::string file = "distributed.py";
};

struct FakeProbe final : RankProbe {
  FakeProbe(base::Rank rank, base::MonoNs now, Rank& it) : number(rank), progress(now), says(it) {}
  void sample(base::MonoNs now, const std::function<std::vector<Descendant>()>&) override {
    ++says.samples;
    progress = says.moves ? now : progress;
  }
  void forgive(base::MonoNs gap) override {
    says.forgiven += gap;
    progress += gap;
  }
  base::Rank rank() const override { return number; }
  base::MonoNs last_progress() const override { return progress; }
  base::MonoNs starved() const override { return 0; }
  const stackdump::Position& position() const override {
    where.file = says.file;
    return where;
  }
  const model::CodeLocation& user_place() const override { return place; }
  model::RankObservation observe(base::MonoNs now) const override {
    model::RankObservation o;
    o.rank = number;
    o.pid = number == 0 ? kRank0 : kRank1;
    o.still_s = still_s(now);
    return o;
  }

  base::Rank number;
  base::MonoNs progress;
  Rank& says;
  mutable stackdump::Position where{.fingerprint = 1, .function = "all_reduce", .line = 7};
  model::CodeLocation place{.function = "step", .file = "train.py", .line = 12};
};

struct WatcherScene : test::JobScene {
  std::map<base::Rank, Rank> ranks;
  bool held = false;
  bool steps = true;
  std::map<base::Rank, model::RankSet> calls;
  std::optional<Watcher> watcher;

  explicit WatcherScene(bool with_ranks = true) : test::JobScene(with_ranks) {}
  std::string words_of(const StallEvent& event) const {
    switch (event.change) {
      case StallChange::raised:
        return fmt::format("raised {} at {:.0f}", event.ranks.text(), now_s());
      case StallChange::escalated:
        return fmt::format("escalated at {:.0f}", now_s());
      case StallChange::cleared:
        return "cleared";
      case StallChange::joined:
        return fmt::format("joined: {}", event.ranks.text());
      case StallChange::judge:
        return fmt::format("judge at {:.0f}", now_s());
      case StallChange::due:
        return fmt::format("due at {:.0f}", now_s());
      case StallChange::merged:
        break;
    }
    return "other";
  }

  void start() {
    watcher.emplace(
        Watcher::Parts{loop, table, options, test::kStart, "node-a"},
        Watcher::Listener{.stall_changed = [this](const StallEvent& event) { tell(words_of(event)); },
                          .open_calls = [this] { return calls; },
                          .steps_seen = [this] { return steps; },
                          .rank_found = teller("found"),
                          .table_updated = [] {},
                          .warn = [this](const std::string& text) { tell(text); }},
        [this] { return held; },
        [this](base::Rank rank, base::Pid, base::MonoNs now, double hang_timeout_s) {
          ranks[rank].hang_timeout_s = hang_timeout_s;
          return std::make_unique<FakeProbe>(rank, now, ranks[rank]);
        });
    watcher->start();
  }
};

}  // namespace

TEST_CASE("a stall is raised, escalates and is cleared") {
  WatcherScene s;
  s.options.busy_timeouts = 3;
  s.start();
  CHECK(s.told() == Told{"found", "found"});
  CHECK(s.ranks[0].hang_timeout_s == 10);
  s.ranks[1].moves = false;
  s.run_for(9.9);
  CHECK(s.told().empty());
  s.run_for(0.2);
  CHECK(s.told() == Told{"raised 1 at 10"});
  s.run_for(19);
  CHECK(s.told().empty());
  s.run_for(1);
  CHECK(s.told() == Told{"escalated at 30"});
  s.ranks[1].moves = true;
  s.run_for(2);
  CHECK(s.told() == Told{"cleared"});
  CHECK(s.table.find(kRank1)->record.function == "all_reduce");
  CHECK(s.table.find(kRank1)->record.place.function == "step");
  CHECK(s.table.find(kRank1)->record.place.line == 12);
  CHECK(s.table.find(kRank1)->record.last_progress_s > 30);
}

TEST_CASE("a rank that stands still in a job without steps is looked at before the timeout") {
  WatcherScene s;
  s.options.hang_timeout_s = 200;
  s.steps = false;
  s.start();
  (void)s.told();
  s.ranks[1].moves = false;
  s.run_for(38);
  CHECK(s.told().empty());
  s.run_for(5);
  REQUIRE(s.told() == Told{"raised 1 at 42"});
  s.run_for(60);
  CHECK(s.told().empty());
  s.ranks[1].moves = true;
  s.run_for(3);
  CHECK(s.told() == Told{"cleared"});
  // Somebody else looks where steps are seen.
  s.steps = true;
  s.ranks[1].moves = false;
  s.run_for(60);
  CHECK(s.told().empty());
}

TEST_CASE("walks that take CPU time have a distance, by a share of the hang timeout at most") {
  WatcherScene s;
  s.options.hang_timeout_s = 400;
  base::MonoNs cpu = 0;
  double walk_s = 0;
  s.loop.set_cpu_clock([&] { return cpu += base::s_to_ns(walk_s); });
  s.start();
  s.run_for(30);
  (void)s.told();
  const auto found_after = [&](base::Rank rank) {
    s.fake.add(5000099 + rank, test::kCommand, "python3",
               fmt::format("RANK={} LOCAL_RANK={} WORLD_SIZE=9", rank, rank));
    const double from = s.now_s();
    while (s.told().empty() && s.now_s() < from + 300) {
      s.run_for(1);
    }
    return s.now_s() - from;
  };
  CHECK(found_after(2) <= 7);
  walk_s = 0.2;
  s.watcher->discover();
  CHECK(found_after(3) == doctest::Approx(21).epsilon(0.1));
  walk_s = 30;
  s.watcher->discover();
  CHECK(found_after(4) == doctest::Approx(101).epsilon(0.05));
  // A walk that is only welcome waits as well.
  walk_s = 0.2;
  s.watcher->discover();
  s.fake.add(5000110, test::kCommand, "python3", "RANK=5 LOCAL_RANK=5 WORLD_SIZE=9");
  s.watcher->discover_if_cheap();
  CHECK(s.told().empty());
}

TEST_CASE("times without progress are recorded, the longest ones") {
  WatcherScene s;
  s.start();
  s.run_for(2);
  s.ranks[1].moves = false;
  s.run_for(20);
  CHECK(s.watcher->rank_still_s(1) == doctest::Approx(20).epsilon(0.1));
  CHECK(s.watcher->rank_still_s(7) == 0);
  CHECK(s.table.find(kRank1)->record.still.empty());
  s.ranks[1].moves = true;
  s.run_for(3);
  REQUIRE(s.table.find(kRank1)->record.still.size() == 1);
  const auto still = s.table.find(kRank1)->record.still.front();
  CHECK(still.from_s == doctest::Approx(2).epsilon(0.3));
  CHECK(still.to_s == doctest::Approx(22).epsilon(0.1));
  CHECK(s.table.find(kRank0)->record.still.empty());
  for (int i = 0; i < 50; ++i) {
    s.ranks[1].moves = false;
    s.run_for(4);
    s.ranks[1].moves = true;
    s.run_for(2);
  }
  const auto& all = s.table.find(kRank1)->record.still;
  CHECK(all.size() == 32);
  CHECK(all.front().to_s == still.to_s);
  CHECK(all.back().from_s > 300);
}

TEST_CASE("without further timeouts for busy ranks nothing escalates, but the stall is judged again") {
  WatcherScene s;
  SUBCASE("by default") {
    s.options.busy_timeouts = 0;
  }
  SUBCASE("after one timeout") {
    s.options.busy_timeouts = 1;  // the dump says so from the start
  }
  s.start();
  s.ranks[0].moves = false;
  (void)s.told();
  s.run_for(60);
  CHECK(s.told() == Told{"raised 0 at 10", "judge at 30"});
}

TEST_CASE("ranks in one recorded call are one stall") {
  WatcherScene s;
  s.start();
  (void)s.told();
  s.ranks[1].moves = false;
  s.run_for(4);
  s.ranks[0].moves = false;
  SUBCASE("in one call") {
    s.calls = {{1, {0, 1}}};
    s.run_for(12);
    CHECK(s.told() == Told{"raised 1 at 10", "joined: 0-1"});
  }
  SUBCASE("without a record") {
    s.run_for(12);
    CHECK(s.told() == Told{"raised 1 at 10", "raised 0 at 14"});
  }
}

TEST_CASE("ranks are not polled while a dump holds them, and that time does not count") {
  WatcherScene s;
  s.options.busy_timeouts = 3;
  s.start();
  (void)s.told();
  s.ranks[0].moves = false;
  s.ranks[1].moves = false;
  s.run_for(10.1);
  CHECK(s.told() == Told{"raised 0-1 at 10"});
  s.held = true;
  const int samples = s.ranks[0].samples;
  s.run_for(15);
  CHECK(s.ranks[0].samples == samples);
  s.held = false;
  s.watcher->held_up(base::s_to_ns(15));
  s.run_for(19);
  CHECK(s.told().empty());
  s.run_for(2);
  CHECK(s.told() == Told{"escalated at 45"});
}

TEST_CASE("a suspension of xpurun is forgiven") {
  WatcherScene s;
  s.start();
  (void)s.told();
  s.ranks[0].moves = false;
  s.run_for(5);
  CHECK(s.ranks[0].forgiven == 0);
  // The next poll comes a minute late, as after SIGSTOP and SIGCONT.
  s.loop.suspend(60);
  s.run_for(4);
  CHECK(base::ns_to_s(s.ranks[0].forgiven) == doctest::Approx(60).epsilon(0.02));
  CHECK(s.told().empty());
  s.run_for(2);
  CHECK(s.told() == Told{"raised 0 at 70"});
}

TEST_CASE("the last observation of a dead rank is kept, and an unwatched rank is kept too") {
  WatcherScene s;
  s.start();
  s.run_for(3);
  CHECK(s.watcher->still_s(kRank1));
  s.watcher->process_ended(kRank1, base::WaitStatus(9));
  s.fake.end(kRank1);
  s.table.mark_dead(kRank1);
  s.table.find(kRank1)->record.death = {
      .happened = true, .order = 1, .at_s = 3, .wait_status = base::WaitStatus(9)};
  s.run_for(4);
  CHECK_FALSE(s.watcher->still_s(kRank1));
  CHECK(s.watcher->living_observations().size() == 1);
  CHECK(s.watcher->last_observations().size() == 1);
  const auto all = s.watcher->observations();
  REQUIRE(all.size() == 2);
  CHECK(all[0].host == "node-a");
  CHECK_FALSE(all[1].alive);
  CHECK(all[1].wait_status.signal() == 9);
  CHECK(all[1].dead_s == doctest::Approx(4));

  Watcher late({s.loop, s.table, s.options, test::kStart, "node-a"}, {}, [] { return false; });
  const auto unwatched = late.observations();
  REQUIRE(unwatched.size() == 1);
  CHECK(unwatched[0].rank == 1);
  CHECK(unwatched[0].wait_status.signal() == 9);
}

TEST_CASE("a rank that appears later is found") {
  WatcherScene s;
  s.start();
  (void)s.told();
  s.run_for(30);
  s.fake.add(5000099, test::kCommand, "python3", "RANK=2 LOCAL_RANK=2 WORLD_SIZE=3");
  s.run_for(5);
  CHECK(s.told() == Told{"found"});
  CHECK(s.ranks[2].samples > 0);
}

TEST_CASE("a launcher that waits for other nodes is said once, and is no stall") {
  WatcherScene s(false);
  s.fake.exec(test::kCommand, "torchrun --nnodes 2 train.py");
  s.table.refresh();
  s.table.find(test::kCommand)->record.seen_s = 0;  // the table has the clock of the host
  s.ranks[base::kNoRank].moves = false;
  s.ranks[base::kNoRank].file = "/usr/lib/python3/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py";
  s.start();
  s.run_for(9);
  CHECK(s.told().empty());
  s.run_for(30);
  CHECK(s.told() == Told{"the launcher has started no rank for 10 s: it waits in rendezvous for other "
                         "nodes (--nnodes 2)"});
  CHECK(model::waits_for_nodes(s.table.find(test::kCommand)->record));
  // The other node has come.
  s.fake.add(5000099, test::kCommand, "python3", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=4");
  s.run_for(30);
  CHECK(s.told() == Told{"found"});
  const int samples = s.ranks[base::kNoRank].samples;
  s.run_for(5);
  CHECK(s.ranks[base::kNoRank].samples == samples);
}

TEST_CASE("a launcher of one node waits for nobody in its rendezvous") {
  for (const char* command :
       {"torchrun train.py", "torchrun --nnodes=1 train.py", "torchrun --nnodes 1:1 train.py"}) {
    WatcherScene s(false);
    s.fake.exec(test::kCommand, command);
    s.table.refresh();
    s.table.find(test::kCommand)->record.seen_s = 0;
    s.ranks[base::kNoRank].moves = false;
    s.ranks[base::kNoRank].file =
        "/usr/lib/python3/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py";
    s.start();
    s.run_for(60);
    CHECK(s.told().empty());
  }
}

TEST_CASE("a launcher that imports for long has not reached the rendezvous") {
  WatcherScene s(false);
  s.fake.exec(test::kCommand, "torchrun train.py");
  s.table.refresh();
  s.ranks[base::kNoRank].file = "/usr/lib/python3/torch/__init__.py";
  s.start();
  s.run_for(60);
  CHECK(s.told().empty());
}

TEST_CASE("stop() ends the polls") {
  WatcherScene s;
  s.start();
  s.run_for(1);
  s.watcher->stop();
  const int samples = s.ranks[0].samples;
  s.run_for(30);
  CHECK(s.ranks[0].samples == samples);
}
