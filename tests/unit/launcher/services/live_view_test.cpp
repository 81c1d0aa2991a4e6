#include "launcher/supervise/reporting/live_view.h"

#include "common/model/vocabulary.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;

namespace {

struct StillProbe final : RankProbe {
  StillProbe(base::Rank rank, base::MonoNs now) : number(rank), progress(now) {}
  void sample(base::MonoNs now, const std::function<std::vector<Descendant>()>&) override {
    progress = number == 0 ? now : progress;  // rank 1 is still
  }
  void forgive(base::MonoNs gap) override { progress += gap; }
  base::Rank rank() const override { return number; }
  base::MonoNs last_progress() const override { return progress; }
  base::MonoNs starved() const override { return 0; }
  const stackdump::Position& position() const override { return where; }
  const model::CodeLocation& user_place() const override { return place; }
  model::RankObservation observe(base::MonoNs now) const override {
    model::RankObservation o;
    o.rank = number;
    o.pid = number == 0 ? kRank0 : kRank1;
    o.state = 'S';
    o.still_s = still_s(now);
    o.user_place = place;
    return o;
  }

  base::Rank number;
  base::MonoNs progress;
  stackdump::Position where{.fingerprint = 1, .function = "wait", .file = "x.py", .line = 7};
  model::CodeLocation place{.function = "step", .file = "train.py", .line = 12};
};

struct LiveViewScene : test::JobScene {
  StepWatch steps{0, [](const model::StepChange&, base::MonoNs) {}};
  TimingService timing{{loop, storage, table, options},
                       journal.dir(),
                       "node-a",
                       {.progress = [](base::Pid) { return TimingService::RankProgress(); },
                        .dumps = [] { return TimingService::DumpActivity(); },
                        .unknown_process = [](base::Pid) {},
                        .first_gpu_use = [] {}}};
  Watcher watcher{{loop, table, options, test::kStart, "node-a"},
                  {.stall_changed = [](const StallEvent&) {},
                   .open_calls = {},
                   .rank_found = [] {},
                   .table_updated = [] {},
                   .warn = [](const std::string&) {}},
                  [] { return false; },
                  [](base::Rank rank, base::Pid, base::MonoNs now, double) {
                    return std::make_unique<StillProbe>(rank, now);
                  }};
  model::CollectiveFacts calls;
  int asked_for_calls = 0;
  model::RankSet slow_ranks;

  LiveViewScene() {
    journal.manifest().id = "the-run";
    journal.manifest().host = "h0";
    journal.manifest().hang_timeout_s = 10;
    watcher.start();
  }
  LiveStatus view() {
    return live_status({.loop = loop,
                        .journal = journal,
                        .table = table,
                        .watcher = watcher,
                        .timing = timing,
                        .steps = steps,
                        .calls =
                            [this] {
                              ++asked_for_calls;
                              return calls;
                            },
                        .slow_ranks = slow_ranks});
  }
  // The stall of rank 1, from the second 3 on.
  model::Stall& stall() {
    model::Stall s;
    s.since_s = 3;
    s.at_s = 13;
    journal.manifest().stalls.push_back(s);
    return journal.manifest().stalls.back();
  }
  // Marks at the ends of four steps of two seconds.
  void make_steps(base::Rank rank) {
    std::vector<model::Span> spans;
    for (int64_t i = 1; i <= 4; ++i) {
      spans.push_back({.begin_ns = i * 2'000'000'000,
                       .duration_ns = 1'000'000,
                       .stage = model::Stage::optimizer,
                       .thread = 5});
    }
    steps.add(rank, 1, spans);
  }
};

}  // namespace

TEST_CASE("live view: the job and its ranks") {
  LiveViewScene s;
  s.run_for(6);
  const LiveStatus view = s.view();
  CHECK(view.run == "the-run");
  CHECK(view.host == "h0");
  CHECK(view.elapsed_s == doctest::Approx(6));
  CHECK(view.world_size == 2);
  CHECK(view.hang_timeout_s == 10);
  CHECK(view.next_check_s > 0);
  CHECK(view.next_check_s < 10);
  CHECK(view.timing == "light");
  CHECK(view.trace.empty());
  CHECK(view.stall_s == 0);
  REQUIRE(view.ranks.size() == 2);
  CHECK(view.ranks[1].pid == kRank1);
  CHECK(view.ranks[1].alive);
  CHECK(view.ranks[1].still_s == doctest::Approx(6));
  CHECK(view.ranks[0].still_s < 3);
  CHECK(view.ranks[1].function == "step");
  CHECK(view.ranks[1].file == "train.py");
  CHECK(view.ranks[1].line == 12);
  CHECK(view.ranks[1].step_s == -1);
  CHECK(view.ranks[1].late_s == -1);
  CHECK(view.steps.done == 0);
  s.timing.trace().start({.name = "mine"}, {});
  CHECK(s.view().trace == "traces/1-mine");
}

TEST_CASE("live view: a rank that has died is shown where it was") {
  LiveViewScene s;
  s.run_for(1);
  s.watcher.process_ended(kRank1, base::WaitStatus::of_signal(9));
  s.table.mark_dead(kRank1);
  const LiveStatus view = s.view();
  REQUIRE(view.ranks.size() == 2);
  CHECK(view.ranks[0].alive);
  CHECK_FALSE(view.ranks[1].alive);
  CHECK(view.ranks[1].rank == 1);
  CHECK(view.ranks[1].file == "train.py");
}

TEST_CASE("live view: a stall, before and after its verdict") {
  LiveViewScene s;
  s.run_for(20);
  SUBCASE("counted from its begin, not from its detection") {
    s.stall();
    CHECK(s.view().stall_s == doctest::Approx(17));
    CHECK(s.view().problem.empty());
    CHECK(s.view().culprits.text().empty());
    CHECK(s.asked_for_calls > 0);
  }
  SUBCASE("counted from its detection if the begin is unknown") {
    s.stall().since_s = -1;
    CHECK(s.view().stall_s == doctest::Approx(7));
  }
  SUBCASE("the verdict names the culprits; its long parts are left out") {
    model::Stall& stall = s.stall();
    stall.verdict.sentence = "rank 1 is stuck";
    stall.verdict.ranks = model::RankSet::of({1});
    stall.verdict.evidence = {"much"};
    const LiveStatus view = s.view();
    CHECK(view.problem == "rank 1 is stuck");
    CHECK(view.culprits.text() == "1");
    CHECK(view.verdict.evidence.empty());
    CHECK_FALSE(stall.verdict.evidence.empty());
    CHECK(s.asked_for_calls == 0);
  }
}

TEST_CASE("live view: while all ranks move, the recorded calls are not looked at") {
  LiveViewScene s;
  s.run_for(0.5);
  s.view();
  CHECK(s.asked_for_calls == 0);
}

TEST_CASE("live view: the steps of the first rank that makes some, and the latest slowdown") {
  LiveViewScene s;
  s.run_for(1);
  s.make_steps(1);
  LiveStatus view = s.view();
  CHECK(view.steps.done == 3);
  CHECK(view.steps.step_s == doctest::Approx(2));
  CHECK(view.steps.slower_share == 0);
  CHECK(view.ranks[0].step_s == -1);
  CHECK(view.ranks[1].step_s == doctest::Approx(2));
  model::Slowdown first;
  first.share = 0.5;
  first.step = 10;
  model::Slowdown second;
  second.share = 0.25;
  second.step = 90;
  s.journal.manifest().slowdowns = {first, second};
  view = s.view();
  CHECK(view.steps.slower_share == 0.25);
  CHECK(view.steps.slower_since == 90);
}

TEST_CASE("live view: the timing of a rank") {
  RankTiming timing;
  timing.rates.flops_per_s = 5e12;
  timing.rates.collectives_per_s = 7;
  timing.health.ring_dropped = 3;
  const auto add = [&](const std::string& name, uint64_t sequence, uint64_t changed_ns, uint64_t launched) {
    CommTotals comm{};
    comm.state = static_cast<uint32_t>(wire::CommState::live);
    comm.name = name;
    comm.launched = launched;
    comm.done = 10;
    comm.marked = launched;
    comm.last_change_ns = changed_ns;
    CollectiveSignature last{};
    last.api = static_cast<uint16_t>(wire::Api::ncclAllReduce);
    last.sequence = sequence;
    comm.last = {last};
    timing.comms.push_back(comm);
  };
  add("tp", 812, 200, 11);
  add("dp", 4, 100, 12);
  timing.comms.push_back({});  // nothing was called there
  const LiveRank r = live_rank({}, true, &timing);
  CHECK(r.last_collective == "AllReduce 812 of tp");
  CHECK(r.outstanding == timing.comms[0].outstanding() + timing.comms[1].outstanding());
  CHECK(r.outstanding > 0);
  CHECK(r.flops_per_s == 5e12);
  CHECK(r.collectives_per_s == 7);
  CHECK(r.dropped == 3);
  const LiveRank without = live_rank({}, false, nullptr);
  CHECK_FALSE(without.alive);
  CHECK(without.last_collective.empty());
  CHECK(without.untraced_share == -1);
}

TEST_CASE("live view: what other nodes say of their ranks, and which say nothing") {
  NodeInfo own;
  own.node = "0-a";
  own.host = "a";
  own.ranks = {{.rank = 0}};
  NodeInfo well;
  well.node = "1-b";
  well.host = "b";
  well.ranks = {{.rank = 2, .alive = true, .still_s = 4, .where = "train.py:12"},
                {.rank = 3, .alive = false}};
  NodeInfo silent;
  silent.node = "2-c";
  silent.host = "c";
  silent.alive = false;
  silent.phase = model::NodePhase::running;
  silent.seen_s = 30;
  silent.expected = {4, 5};
  silent.ranks = {{.rank = 4}};
  NodeInfo ended = silent;
  ended.node = "3-d";
  ended.host = "d";
  ended.phase = model::NodePhase::ended;
  ended.ranks = {{.rank = 6, .alive = true}};
  const LiveStatus view = status_of_others({own, well, silent, ended}, "0-a", 6);
  REQUIRE(view.ranks.size() == 3);
  CHECK(view.ranks[0].rank == 2);
  CHECK(view.ranks[0].host == "b");
  CHECK(view.ranks[0].pid == 0);
  CHECK(view.ranks[0].where == "train.py:12");
  CHECK(view.ranks[0].alive);
  CHECK_FALSE(view.ranks[1].alive);
  CHECK(view.ranks[2].rank == 6);
  CHECK_FALSE(view.ranks[2].alive);  // its node has ended
  CHECK(view.gaps == std::vector<std::string>{"no word from host c for 30 s: ranks 4-5",
                                              "2 of 6 nodes have not been heard of"});
  CHECK(status_of_others({own}, "0-a", 0).gaps.empty());
  CHECK(status_of_others({}, "0-a", 0).ranks.empty());
}

TEST_CASE("live view: the nodes as a list") {
  NodeInfo node;
  node.node = "1-b";
  node.node_rank = 1;
  node.host = "b";
  node.phase = model::NodePhase::running;
  node.elected = true;
  node.still_s = 2;
  node.seen_s = 1;
  node.offset_ns = -5;
  node.uncertainty_ns = 7;
  node.expected = {8, 9, 10};
  const auto list = listed({node});
  REQUIRE(list.size() == 1);
  CHECK(list[0].node == "1-b");
  CHECK(list[0].node_rank == 1);
  CHECK(list[0].elected);
  CHECK(list[0].alive);
  CHECK(list[0].offset_ns == -5);
  CHECK(list[0].uncertainty_ns == 7);
  CHECK(list[0].ranks == "8-10");
}
