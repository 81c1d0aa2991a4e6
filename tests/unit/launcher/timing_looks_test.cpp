#include "launcher/timing/collective_looks.h"

#include <doctest/doctest.h>

#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kStart = 1'000'000'000'000;
constexpr int64_t kSecond = 1'000'000'000;

// Wall time is 30 s after a full minute at the start.
struct LooksScene {
  EventLoop loop = std::move(EventLoop::create_simulated(kStart).value());
  double step_s = -1;
  std::vector<double> changes;  // seconds since the start
  CollectiveLooks looks{loop,
                        {.step_s = [this] { return step_s; },
                         .changed = [this] { changes.push_back(base::ns_to_s(loop.now() - kStart)); },
                         .wall_ns = [this] { return 30 * kSecond + (loop.now() - kStart); }}};

  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

}  // namespace

TEST_CASE("looks: one when steps are known, then one at each minute of UTC") {
  LooksScene s;
  s.looks.start();
  s.looks.start();
  s.run_for(4.5);
  CHECK(s.changes.empty());
  s.step_s = 0.05;
  s.run_for(1);
  REQUIRE(s.changes.size() == 1);
  CHECK(s.changes[0] == doctest::Approx(5));
  CHECK(s.looks.looking());
  s.run_for(90);
  REQUIRE(s.changes.size() == 6);
  CHECK(s.changes[1] == doctest::Approx(5.5));  // ten steps
  CHECK(s.changes[2] == doctest::Approx(30));
  CHECK(s.changes[3] == doctest::Approx(30.5));
  CHECK(s.changes[4] == doctest::Approx(90));
  s.looks.stop();
  s.run_for(200);
  CHECK(s.changes.size() == 6);
  CHECK_FALSE(s.looks.looking());
}

TEST_CASE("looks: a job without known steps is looked at too") {
  LooksScene s;
  s.looks.start();
  s.run_for(59.5);
  CHECK(s.changes.empty());
  s.run_for(2);
  REQUIRE(s.changes.size() == 2);
  CHECK(s.changes[0] == doctest::Approx(60));
  CHECK(s.changes[1] == doctest::Approx(61));
}

TEST_CASE("looks: never longer than some seconds, never too short for the poll of a rank") {
  CHECK(look_seconds(-1) == 1);
  CHECK(look_seconds(0.001) == 0.2);
  CHECK(look_seconds(0.1) == doctest::Approx(1));
  CHECK(look_seconds(60) == 5);
}
