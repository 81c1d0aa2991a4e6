#include "launcher/watch/hang_detector.h"

#include <doctest/doctest.h>

using namespace xpurun;
using launcher::HangDetector;
using launcher::StillRank;

namespace {
constexpr base::MonoNs kOneSecond = 1'000'000'000;
}

TEST_CASE("a rank that is still for the timeout raises once") {
  HangDetector d(10, 3);
  CHECK_FALSE(d.update(9 * kOneSecond, {{0, 0}, {1, 5 * kOneSecond}}).raised);
  CHECK(d.next_deadline() == 10 * kOneSecond);
  const auto events = d.update(10 * kOneSecond, {{0, 0}, {1, 5 * kOneSecond}});
  CHECK(events.raised);
  CHECK(events.longest == 0);
  CHECK_FALSE(d.update(11 * kOneSecond, {{0, 0}, {1, 5 * kOneSecond}}).raised);
  SUBCASE("a rank that joins the same stall raises no new stall") {
    CHECK_FALSE(d.update(16 * kOneSecond, {{0, 0}, {1, 5 * kOneSecond}}).raised);
  }
  SUBCASE("the stall is cleared when all of its ranks have made progress, and a new stall is raised") {
    auto e = d.update(20 * kOneSecond, {{0, 19 * kOneSecond}, {1, 19 * kOneSecond}});
    CHECK(e.cleared);
    CHECK_FALSE(e.raised);
    CHECK(d.update(29 * kOneSecond, {{0, 19 * kOneSecond}, {1, 25 * kOneSecond}}).raised);
  }
  SUBCASE("progress of one of two ranks does not clear the stall") {
    d.update(16 * kOneSecond, {{0, 0}, {1, 5 * kOneSecond}});
    CHECK_FALSE(d.update(20 * kOneSecond, {{0, 19 * kOneSecond}, {1, 5 * kOneSecond}}).cleared);
    CHECK(d.update(21 * kOneSecond, {{0, 19 * kOneSecond}, {1, 20 * kOneSecond}}).cleared);
  }
  SUBCASE("the death of all members clears the stall") {
    CHECK(d.update(20 * kOneSecond, {{1, 19 * kOneSecond}}).cleared);
  }
}

TEST_CASE("a stall escalates once after the allowed number of timeouts") {
  HangDetector d(10, 3);
  CHECK(d.update(10 * kOneSecond, {{0, 0}}).raised);
  CHECK(d.next_deadline() == 30 * kOneSecond);
  CHECK_FALSE(d.update(29 * kOneSecond, {{0, 0}}).escalated);
  CHECK(d.update(30 * kOneSecond, {{0, 0}}).escalated);
  CHECK_FALSE(d.update(40 * kOneSecond, {{0, 0}}).escalated);
}

TEST_CASE("with busy_timeouts 1, a stall escalates at the next poll after it was raised") {
  HangDetector d(10, 1);
  const auto events = d.update(10 * kOneSecond, {{0, 0}});
  CHECK(events.raised);
  CHECK_FALSE(events.escalated);
  CHECK(d.update(10 * kOneSecond + 1, {{0, 0}}).escalated);
}

TEST_CASE("time in which xpurun held the ranks does not count as stillness") {
  HangDetector d(10, 3);
  d.held_up(100 * kOneSecond);  // without effect, because no stall is open
  CHECK(d.update(10 * kOneSecond, {{0, 0}}).raised);
  d.held_up(7 * kOneSecond);
  CHECK_FALSE(d.update(36 * kOneSecond, {{0, 0}}).escalated);
  CHECK(d.next_deadline() == 37 * kOneSecond);
  SUBCASE("once") {
    CHECK(d.update(37 * kOneSecond, {{0, 0}}).escalated);
  }
  SUBCASE("a new stall counts from its own beginning") {
    CHECK(d.update(38 * kOneSecond, {{0, 37 * kOneSecond}}).cleared);
    CHECK(d.update(47 * kOneSecond, {{0, 37 * kOneSecond}}).raised);
    CHECK(d.update(67 * kOneSecond, {{0, 37 * kOneSecond}}).escalated);
  }
}

TEST_CASE("a timeout of zero never raises") {
  HangDetector d(0, 3);
  CHECK_FALSE(d.update(1'000'000 * kOneSecond, {{0, 0}}).raised);
  CHECK_FALSE(d.next_deadline());
}

TEST_CASE("ranks with progress never raise a stall") {
  HangDetector d(10, 3);
  for (int t = 0; t < 1000; ++t) {
    REQUIRE_FALSE(d.update(t * kOneSecond, {{0, (t - t % 9) * kOneSecond}, {1, t * kOneSecond}}).raised);
  }
}

TEST_CASE("time in which a rank had no CPU does not count as stillness, up to three timeouts") {
  HangDetector d(10, 3);
  SUBCASE("a rank that gets no CPU is not still") {
    CHECK_FALSE(d.update(12 * kOneSecond, {{0, 0, 5 * kOneSecond}}).raised);
    CHECK(d.next_deadline() == 15 * kOneSecond);
    CHECK(d.update(15 * kOneSecond, {{0, 0, 5 * kOneSecond}}).raised);
    CHECK(d.next_deadline() == 35 * kOneSecond);
    CHECK_FALSE(d.update(34 * kOneSecond, {{0, 0, 9 * kOneSecond}}).escalated);
    CHECK(d.update(35 * kOneSecond, {{0, 0, 9 * kOneSecond}}).escalated);
  }
  SUBCASE("a rank that starves during the stall stays in the stall until it makes progress") {
    CHECK(d.update(10 * kOneSecond, {{0, 0, 0}}).raised);
    const auto events = d.update(20 * kOneSecond, {{0, 0, 10 * kOneSecond}});
    CHECK_FALSE(events.cleared);
    CHECK_FALSE(events.raised);
    CHECK(d.update(21 * kOneSecond, {{0, 20 * kOneSecond, 0}}).cleared);
  }
  SUBCASE("an endless loop is told at last") {
    CHECK_FALSE(d.update(39 * kOneSecond, {{0, 0, 38 * kOneSecond}}).raised);
    CHECK(d.update(40 * kOneSecond, {{0, 0, 39 * kOneSecond}}).raised);
  }
  SUBCASE("a waiting rank raises the stall, whatever the others lack") {
    const auto events = d.update(10 * kOneSecond, {{0, 0, 9 * kOneSecond}, {1, 0, 0}});
    CHECK(events.raised);
    CHECK(events.longest == 1);
  }
}
