// When no step has ended for far longer than usual.
#include "launcher/speed/silence_watch.h"

#include <doctest/doctest.h>

#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// A job whose steps are given; the watch looks once a second.
struct SilenceWatchScene {
  SilenceWatch watch;
  SilenceWatch::Seen seen;
  double now = 1000;
  double looked = 1000;
  bool recorded = true;
  std::vector<double> told{};

  explicit SilenceWatchScene(double hang_timeout_s = 600) : watch(hang_timeout_s) {}

  void wait(double seconds) {
    const double until = now + seconds;
    for (; looked + 1 <= until; looked += 1) {
      if (const auto silent = watch.look(seen, base::s_to_ns(looked + 1), recorded)) {
        told.push_back(*silent);
      }
    }
    now = until;
  }
  void steps(int count, double step_s) {
    for (int i = 0; i < count; ++i) {
      wait(step_s);
      ++seen.steps;
      seen.step_s = step_s;
      seen.last_end = base::s_to_ns(now);
    }
  }
};

}  // namespace

TEST_CASE("a silence is told once, after ten usual steps and five seconds at least") {
  struct Case {
    double step_s;
    double told_after_s;
  };
  for (const Case one : {Case{0.01, 5}, Case{0.3, 5}, Case{0.9, 9}, Case{7, 70}}) {
    SilenceWatchScene s;
    s.steps(50, one.step_s);
    CHECK(s.told.empty());
    s.wait(one.told_after_s - 2);
    CHECK(s.told.empty());
    s.wait(4);
    REQUIRE(s.told.size() == 1);
    CHECK(s.told[0] == doctest::Approx(one.told_after_s).epsilon(0.2));
    s.wait(500);
    CHECK(s.told.size() == 1);
  }
}

TEST_CASE("the next silence is told again only if it is far longer than pauses before") {
  SilenceWatchScene s;
  s.steps(50, 0.5);
  s.wait(12);
  s.steps(50, 0.5);
  REQUIRE(s.told.size() == 1);
  for (int i = 0; i < 5; ++i) {  // checkpoints
    s.wait(12);
    s.steps(50, 0.5);
  }
  CHECK(s.told.size() == 1);
  s.wait(40);
  CHECK(s.told.size() == 2);
}

TEST_CASE("no silence before steps are known, and none that the hang timeout comes before") {
  SilenceWatchScene warm;
  warm.steps(10, 0.1);
  warm.wait(300);
  CHECK(warm.told.empty());
  warm.steps(50, 0.1);  // the long pause while the program warmed up does not count
  warm.wait(8);
  CHECK(warm.told.size() == 1);

  SilenceWatchScene none;
  none.wait(1000);
  CHECK(none.told.empty());

  for (const double timeout : {30.0, 0.0}) {
    SilenceWatchScene slow(timeout);
    slow.steps(50, 4);
    slow.wait(100);
    CHECK(slow.told.size() == (timeout > 0 ? 0 : 1));
  }
}

TEST_CASE("time in which steps are not seen is no silence") {
  SilenceWatchScene s;
  s.steps(50, 0.2);
  s.recorded = false;
  s.wait(100);
  CHECK(s.told.empty());
  s.recorded = true;
  s.wait(4);
  CHECK(s.told.empty());
  s.steps(50, 0.2);  // the time without records is not a pause either
  s.wait(7);
  CHECK(s.told.size() == 1);
}
