#include "launcher/timing/timelines.h"

#include "tests/unit/launcher/job_scene.h"
#include "tests/unit/launcher/services/log_lines.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// Ranks that make a step in each second, by a clock of the test.
struct TimelinesScene : test::JobScene {
  test::LogLines log;
  TimelinePlan::Look seen{.wall_ns = 1'700'000'000'500'000'000, .ranks = 2};
  int looks = 0;
  Collector collector{wire::Level::light, 1000};
  TraceSession session{{loop, storage, table, collector}, "run", [] {}};
  Timelines timelines;

  explicit TimelinesScene(const char* specs)
      : timelines(session, storage, "run", *timeline_specs(specs),
                  {.look =
                       [this] {
                         ++looks;
                         return seen;
                       },
                   .ranks =
                       [] {
                         return std::set<base::Rank>{0, 1};
                       }}) {
    std::filesystem::remove_all("run/traces");
  }
  // One tick, after so much time of the job's clock.
  void tick(double after_s = 0.1) {
    seen.now += base::s_to_ns(after_s);
    seen.wall_ns += base::s_to_ns(after_s);
    timelines.tick();
  }
  void step(uint64_t ended) {
    seen.slowest = seen.fastest = ended;
    seen.step_s = 1;
  }
  nlohmann::json written(const std::string& dir) {
    run_for(1);  // the trace has no rank with a GPU, so that it ends at its start
    const auto text = base::read_file("run/" + dir + "/trace.json");
    return text ? nlohmann::json::parse(*text) : nlohmann::json();
  }
};

}  // namespace

TEST_CASE("timelines: nothing is looked at without --timeline") {
  TimelinesScene s("");
  s.tick();
  CHECK(s.looks == 0);
  s.timelines.finish(true);
  CHECK(s.log.text().empty());
}

TEST_CASE("timelines: the trace says what was asked for") {
  SUBCASE("of the GPU") {
    TimelinesScene s("steps:1-2");
    s.tick();
    CHECK(s.session.dir() == "traces/1-steps-1-2");
    const auto json = s.written("traces/1-steps-1-2");
    CHECK(json["timeline"] == "steps:1-2");
    CHECK(json["kinds"] == nlohmann::json{"matmul", "collective", "memory"});
  }
  SUBCASE("of the host too") {
    TimelinesScene s("first:3+host");
    s.tick();
    const auto json = s.written(s.session.dir());
    CHECK(json["timeline"] == "first:3+host");
    CHECK(json["kinds"].back() == "host");
  }
}

TEST_CASE("timelines: a trace ends when its steps are over") {
  TimelinesScene s("steps:1-2");
  s.tick();
  REQUIRE(s.session.active());
  s.step(1);
  s.tick();
  CHECK(s.session.active());
  s.step(2);
  s.tick();
  s.tick(1.1);
  CHECK_FALSE(s.session.active());
  s.run_for(1);
  CHECK(s.log.have("--timeline steps:1-2: traces/1-steps-1-2 (complete)"));
  s.timelines.finish(true);
  CHECK_FALSE(s.log.have("was not taken"));
}

TEST_CASE("timelines: the next one does not wait for a trace that someone else has ended") {
  TimelinesScene s("steps:1-50,steps:60-70");
  s.tick();
  s.session.end("reset");
  s.step(59);
  s.tick();
  CHECK(s.session.dir() == "traces/2-steps-60-70");
}

TEST_CASE("timelines: steps that pass during another trace are missed, with a warning") {
  TimelinesScene s("steps:3-4,steps:90-91");
  s.session.start({.name = "by-hand"}, {});
  s.step(2);
  s.tick();
  CHECK(s.session.dir() == "traces/1-by-hand");
  CHECK_FALSE(s.log.have("was not taken"));
  s.step(4);
  s.tick();
  CHECK(s.log.have(
      "--timeline steps:3-4 was not taken: its steps have passed while another trace was running"));
  s.session.end("reset");
  s.step(89);
  s.tick();
  CHECK(s.session.dir() == "traces/2-steps-90-91");
}

TEST_CASE("timelines: of the periodic traces the newest twenty are kept") {
  TimelinesScene s("every:10s");
  for (int i = 1; i <= 22; ++i) {
    // The second before the next multiple of ten.
    const int64_t second = s.seen.wall_ns / 1'000'000'000;
    s.seen.now += base::s_to_ns(10);
    s.seen.wall_ns = (second / 10 * 10 + 19) * 1'000'000'000 + 500'000'000;
    s.timelines.tick();
    const std::string dir = fmt::format("run/traces/{}-every-10s", i);
    REQUIRE(s.session.dir() == dir.substr(4));
    REQUIRE(base::write_file_atomic(dir + "/rank-0.xev", "events"));
    s.run_for(1);
    CHECK(std::filesystem::exists(dir + "/trace.json"));
    s.tick(3);
  }
  CHECK_FALSE(std::filesystem::exists("run/traces/1-every-10s"));
  CHECK_FALSE(std::filesystem::exists("run/traces/2-every-10s"));
  CHECK(std::filesystem::exists("run/traces/3-every-10s/rank-0.xev"));
  CHECK(std::filesystem::exists("run/traces/22-every-10s/trace.json"));
}

TEST_CASE("timelines: at the end of the job it says what was not taken, and why") {
  TimelinesScene s("steps:50-60,every:10m");
  SUBCASE("no GPU") {
    s.timelines.finish(false);
    CHECK(s.log.have("--timeline steps:50-60 was not taken: no rank has used a GPU"));
    CHECK(s.log.have("--timeline every:10m was not taken: no rank has used a GPU"));
  }
  SUBCASE("no step") {
    s.tick();
    s.timelines.finish(true);
    CHECK(s.log.have("steps:50-60 was not taken: no step was seen"));
    CHECK(s.log.have("every:10m was not taken: the job has ended before its time"));
  }
  SUBCASE("too few steps") {
    s.step(7);
    s.tick();
    s.timelines.finish(true);
    CHECK(s.log.have("steps:50-60 was not taken: step 7 was the last one"));
  }
}
