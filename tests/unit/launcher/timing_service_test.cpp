#include "launcher/timing/timing_service.h"

#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sys/mman.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

// The rank's end of its segment.
class RankMemory {
 public:
  explicit RankMemory(int descriptor)
      : memory_(static_cast<wire::Segment*>(
            ::mmap(nullptr, sizeof(wire::Segment), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))) {
    REQUIRE(memory_ != MAP_FAILED);
    wire::OpEntry& op = memory_->ops[1];
    op.key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
    op.key.comm = wire::kNoComm;
    op.state = static_cast<uint32_t>(wire::SlotState::ready);
  }
  ~RankMemory() { ::munmap(memory_, sizeof(wire::Segment)); }
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  void call(int times) {
    for (int i = 0; i < times; ++i) {
      const uint64_t head = memory_->header.ring_head;
      wire::Event& event = memory_->ring[head % wire::kRingSlots];
      event.op = 1;
      event.begin_ns = uint64_t{1} << 62;  // after the start of any trace
      event.duration_ns = 1'000'000;
      memory_->header.ring_head = head + 1;
    }
    memory_->ops[1].calls += static_cast<uint64_t>(times);
  }
  wire::Every every() const { return static_cast<wire::Every>(memory_->header.to_rank.every.load()); }
  wire::Level level() const { return static_cast<wire::Level>(memory_->header.to_rank.level.load()); }

 private:
  wire::Segment* memory_;
};

struct TimingServiceScene : test::JobScene {
  bool dumping = false;
  double step_s = -1;
  uint64_t steps = 0;
  std::vector<bool> every_call;
  std::optional<TimingService> timing;

  explicit TimingServiceScene(const char* timelines = "") {
    options.timing = Timing::light;
    options.timelines = *timeline_specs(timelines);
    timing.emplace(TimingService::Parts{loop, storage, table, options}, journal.dir(), "node-a",
                   TimingService::Hooks{.progress =
                                            [this](base::Pid pid) {
                                              return TimingService::RankProgress{
                                                  .still_s = pid == kRank0 ? 3.0 : -1,
                                                  .hung = pid == kRank0,
                                                  .steps = steps,
                                                  .step_s = step_s};
                                            },
                                        .dumps =
                                            [this] {
                                              return TimingService::DumpActivity{dumping, 2};
                                            },
                                        .unknown_process = [this](base::Pid) { tell("unknown process"); },
                                        .first_gpu_use = teller("first use"),
                                        .step_s = [this] { return step_s; },
                                        .every_call_timed = [this](bool on) { every_call.push_back(on); }});
  }
  std::unique_ptr<RankMemory> attach(base::Pid pid) {
    std::unique_ptr<RankMemory> out;
    timing->attach(pid, [&](int descriptor) {
      REQUIRE(descriptor >= 0);
      out = std::make_unique<RankMemory>(descriptor);
    });
    REQUIRE(out);
    return out;
  }
  nlohmann::json file(const std::string& path) {
    return nlohmann::json::parse(base::read_file(path).value());
  }
  TraceSession::Ended ended() {
    return [this](const std::string& dir, const std::string& how) { tell(dir + " " + how); };
  }
};

}  // namespace

TEST_CASE("a process that uses a GPU is drained from then on") {
  TimingServiceScene s;
  const auto rank = s.attach(kRank0);
  CHECK(s.told() == Told{"first use"});
  CHECK(rank->level() == wire::Level::light);
  rank->call(5);
  s.run_for(0.3);
  const RankTiming* timing = s.timing->read({.pid = kRank0, .rank = 0});
  REQUIRE(timing != nullptr);
  CHECK(timing->ops.at(0).calls == 5);
  (void)s.attach(kRank1);
  CHECK(s.told().empty());
  (void)s.attach(5000090);
  CHECK(s.told() == Told{"unknown process"});
  CHECK(s.timing->read({.pid = 5000091}) == nullptr);
}

TEST_CASE("the data of a scrape") {
  TimingServiceScene s;
  const auto rank = s.attach(kRank0);
  s.dumping = true;
  NodeMetrics node = s.timing->node_metrics(TimingService::WhichRanks::living);
  CHECK(node.host == "node-a");
  CHECK(node.dumping);
  CHECK(node.last_dump_s == 2);
  REQUIRE(node.ranks.size() == 2);
  CHECK(node.ranks[0].hung);
  CHECK(node.ranks[0].timing != nullptr);
  CHECK(node.ranks[1].still_s == -1);
  CHECK(node.ranks[1].timing == nullptr);
  s.fake.end(kRank0);
  s.table.mark_dead(kRank0);
  CHECK(s.timing->node_metrics(TimingService::WhichRanks::living).ranks.size() == 1);
  node = s.timing->node_metrics(TimingService::WhichRanks::all);
  REQUIRE(node.ranks.size() == 2);
  CHECK(node.ranks[0].timing != nullptr);
}

TEST_CASE("a scrape has the numbers of collections and batches, with and without a GPU") {
  TimingServiceScene s;
  const std::vector<model::Span> spans = {{.stage = model::Stage::garbage, .sequence = 7},
                                          {.stage = model::Stage::data},
                                          {.stage = model::Stage::backward},
                                          {.stage = model::Stage::data},
                                          {.stage = model::Stage::garbage, .sequence = 9}};
  s.timing->spans_arrived(1, spans, {""});
  const NodeMetrics node = s.timing->node_metrics(TimingService::WhichRanks::living);
  REQUIRE(node.ranks.size() == 2);
  CHECK(node.ranks[0].collections == 0);
  CHECK(node.ranks[1].collections == 9);
  CHECK(node.ranks[1].batches == 2);
}

TEST_CASE("the end of the job writes timing.json and metrics.prom, and ends the trace") {
  TimingServiceScene s;
  const auto rank = s.attach(kRank0);
  s.timing->trace().start({}, s.ended());
  rank->call(3);
  s.timing->finish();
  s.run_for(1);
  CHECK(s.told() == Told{"first use", "traces/1 end of the run"});
  CHECK(s.file("run/timing.json")["ranks"][0]["ops"][0]["calls"] == 3);
  CHECK(base::read_file("run/metrics.prom").value().find("xpurun_") != std::string::npos);
  // Nothing is drained any more, so nothing keeps the loop running.
  REQUIRE(s.loop.run());
}

TEST_CASE("without a GPU call there is no timing.json") {
  TimingServiceScene s;
  s.timing->save("nothing");
  CHECK(s.timing->calls().empty());
  CHECK_FALSE(base::read_file("nothing/timing.json"));
}

TEST_CASE("a trace raises the level while it runs and ends when all ranks have delivered") {
  TimingServiceScene s;
  const auto rank0 = s.attach(kRank0);
  const auto rank1 = s.attach(kRank1);
  (void)s.told();
  TraceSession& trace = s.timing->trace();
  trace.start({.count = 4, .name = "slow"}, s.ended());
  CHECK(trace.active());
  CHECK(trace.dir() == "traces/1-slow");
  rank0->call(2);  // before the start
  s.run_for(0.05);
  CHECK(rank0->level() == wire::Level::full);
  CHECK(rank0->every() == wire::Every::call);
  s.timing->set_level(wire::Level::off);  // no effect before the end
  CHECK(rank0->level() == wire::Level::full);
  s.run_for(0.1);
  rank0->call(4);
  rank1->call(3);
  s.run_for(0.2);
  CHECK(trace.active());
  rank1->call(2);
  s.run_for(0.2);
  CHECK_FALSE(trace.active());
  CHECK(rank0->every() == wire::Every::none);
  CHECK(s.every_call == std::vector<bool>{true, false});
  CHECK(s.told() == Told{"traces/1-slow complete"});
  CHECK(rank1->level() == wire::Level::off);
  const auto json = s.file("run/traces/1-slow/trace.json");
  CHECK(json["ended"] == "complete");
  CHECK(json["ranks"][0]["events"] == 4);
  CHECK(json["ranks"][1]["events"] == 4);
}

TEST_CASE("a rank that has died does not keep a trace from ending") {
  TimingServiceScene s;
  const auto rank0 = s.attach(kRank0);
  const auto rank1 = s.attach(kRank1);
  (void)s.told();
  s.timing->trace().start({.count = 4}, s.ended());
  s.run_for(0.2);
  rank0->call(4);
  s.fake.end(kRank1);
  s.table.mark_dead(kRank1);
  s.run_for(0.2);
  CHECK(s.told() == Told{"traces/1 complete"});
}

TEST_CASE("a trace ends by its time limit, by a reset, or for lack of ranks with a GPU") {
  TimingServiceScene s;
  TraceSession& trace = s.timing->trace();
  trace.start({.count = 4}, s.ended());
  s.run_for(0.2);
  CHECK(s.told() == Told{"traces/1 no rank uses a GPU"});
  const auto rank = s.attach(kRank0);
  (void)s.told();
  trace.start({.count = 4, .timeout_s = 5}, s.ended());
  s.run_for(5.05);
  CHECK(trace.active());
  s.run_for(0.1);
  CHECK(s.told() == Told{"traces/2 timeout"});
  trace.start({.count = 4}, s.ended());
  s.run_for(1);
  trace.end("reset");
  trace.end("reset");
  s.run_for(1);
  CHECK(s.told() == Told{"traces/3 reset"});
  CHECK(rank->level() == wire::Level::light);
}

TEST_CASE("now and then all collectives are timed for some steps") {
  TimingServiceScene s;
  s.step_s = 0.1;
  const auto rank = s.attach(kRank0);
  CHECK(rank->every() == wire::Every::none);
  s.run_for(1.5);
  CHECK(rank->every() == wire::Every::collective);
  CHECK(rank->level() == wire::Level::light);
  CHECK(s.attach(kRank1)->every() == wire::Every::collective);
  s.run_for(1);
  CHECK(rank->every() == wire::Every::none);
  s.timing->finish();
}

TEST_CASE("--timeline takes a trace of the first steps, and gives way to no request") {
  TimingServiceScene s("first:3,steps:900-901");
  const auto rank0 = s.attach(kRank0);
  const auto rank1 = s.attach(kRank1);
  (void)s.told();
  s.run_for(0.5);
  TraceSession& trace = s.timing->trace();
  CHECK(trace.dir() == "traces/1-first-3");
  CHECK(rank0->every() == wire::Every::call);
  rank0->call(5);
  rank1->call(6);
  s.steps = 2;
  s.step_s = 0.1;
  s.run_for(1);
  CHECK(trace.active());
  s.steps = 3;
  s.run_for(1);
  CHECK_FALSE(trace.active());
  CHECK(rank0->every() != wire::Every::call);
  const auto json = s.file("run/traces/1-first-3/trace.json");
  CHECK(json["ended"] == "complete");
  CHECK(json["timeline"] == "first:3");
  CHECK(json["ranks"][0]["events"] == 5);
  CHECK(json["ranks"][1]["events"] == 6);
  // A request in the way: the other steps pass.
  trace.start({.count = 1000}, s.ended());
  s.steps = 950;
  s.run_for(2);
  CHECK(trace.dir() == "traces/2");
  trace.end("reset");
  s.run_for(2);
  CHECK_FALSE(trace.active());
  s.timing->finish();
}
