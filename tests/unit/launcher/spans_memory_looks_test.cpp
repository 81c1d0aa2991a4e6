// How the supervisor asks for looks at the memory, and what becomes of the answers.
#include "common/base/os/io.h"
#include "launcher/spans/memory_looks.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>
#include <sys/mman.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;

namespace {

struct LooksScene : test::JobScene {
  PythonSegments segments;
  MemoryLooks looks{{loop, table, storage, segments}, "run", "node-a", [this] { return now_s(); }};
  std::optional<LookAnswer> answer;

  const wire::PythonSegment& attach(base::Pid pid) {
    REQUIRE(segments.attach(pid));
    return *segments.find(pid).memory;
  }
  bool ask(const LookOrder& order) {
    return looks.ask_all(order, 5, [this](const LookAnswer& a) { answer = a; }).has_value();
  }
  static std::string message(uint32_t request, const char* why = "request") {
    return fmt::format(
        R"({{"schema":"xpurun.memory/1","rank":7,"why":"{}","request":{},"step":12,"devices":[],)"
        R"("places":[],"holders":[]}})",
        why, request);
  }
};

}  // namespace

TEST_CASE("memory looks: all ranks are asked, and the answer waits for all of them") {
  LooksScene s;
  const wire::PythonSegment& first = s.attach(kRank0);
  const wire::PythonSegment& second = s.attach(kRank1);
  CHECK(first.look_number == 0);
  REQUIRE(s.ask({.steps = 8, .objects = true}));
  CHECK((first.look_number & 255u) != 0);
  CHECK(first.look_steps == 8);
  CHECK(first.look_objects == 1);
  CHECK_FALSE(s.ask({}));  // one at a time
  s.looks.received(kRank0, LooksScene::message(first.look_number));
  s.looks.received(kRank1, LooksScene::message(second.look_number, "peak"));
  s.looks.received(kRank1, LooksScene::message(second.look_number + 9));
  s.run_for(1);
  CHECK_FALSE(s.answer);
  s.looks.received(kRank1, LooksScene::message(second.look_number));
  s.run_for(0.1);
  REQUIRE(s.answer);
  CHECK(s.answer->answered == model::RankSet{0, 1});
  CHECK(s.answer->silent.empty());
  CHECK(s.ask({}));
}

TEST_CASE("memory looks: who does not answer, and who cannot be asked") {
  LooksScene s;
  s.attach(kRank0);
  REQUIRE(s.ask({}));
  s.run_for(4);
  CHECK_FALSE(s.answer);
  s.run_for(2);
  REQUIRE(s.answer);
  CHECK(s.answer->silent == model::RankSet{0});
  CHECK(s.answer->unreachable == model::RankSet{1});
}

TEST_CASE("memory looks: the newest of each reason is kept, under the rank that the supervisor knows") {
  LooksScene s;
  s.looks.received(kRank1, LooksScene::message(0, "growth"));
  s.run_for(2);
  s.looks.received(kRank1, LooksScene::message(3, "growth"));
  s.looks.received(kRank1, "{\"schema\":\"xpurun.memory/1\"");
  s.looks.received(test::kCommand, LooksScene::message(0, "time"));
  const auto text = base::read_file("run/ranks/1/memory-growth.json");
  REQUIRE(text);
  const auto look = model::memory_look_from_json(*text);
  REQUIRE(look);
  CHECK(look->rank == 1);
  CHECK(look->pid == kRank1);
  CHECK(look->host == "node-a");
  CHECK(look->request == 3);
  CHECK(look->at_s == doctest::Approx(2));
  CHECK_FALSE(base::read_file("run/ranks/7/memory-growth.json"));
  CHECK_FALSE(base::read_file("run/ranks/-1/memory-time.json"));
}

TEST_CASE("memory looks: the lowest byte of an order is never 0") {
  LooksScene s;
  const wire::PythonSegment& memory = s.attach(kRank0);
  for (int i = 0; i < 600; ++i) {
    s.looks.ask(kRank0, {.reason = wire::kMemoryGrowth, .steps = 8});
    REQUIRE((memory.look_number & 255u) != 0);
  }
  CHECK(memory.look_reason == wire::kMemoryGrowth);
}
