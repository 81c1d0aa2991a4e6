#include "launcher/nodes/agent/protocol/clock_offset.h"

#include "tests/unit/nodes/simulated_network.h"

#include <doctest/doctest.h>

#include <cstdlib>

using xpurun::nodes::ClockOffset;
using xpurun::nodes::kMs;
using xpurun::nodes::kWall;

namespace {

// A round trip of there + back; the other node's clock is `ahead`.
void trip(ClockOffset& clock, int64_t there, int64_t back, int64_t ahead) {
  const int64_t sent = 1000 * kMs;
  clock.add(sent, sent + there + back, kWall + there + ahead, kWall + there + back);
}

}  // namespace

TEST_CASE("the offset of a clock is right within its uncertainty, however unequal the two ways are") {
  for (const int64_t ahead : {int64_t{0}, 600'000 * kMs, -600'000 * kMs}) {
    for (const int64_t there : {0 * kMs, 1 * kMs, 40 * kMs}) {
      ClockOffset clock;
      trip(clock, there, 5 * kMs, ahead);
      CHECK(std::abs(clock.offset_ns() - ahead) <= clock.uncertainty_ns());
    }
  }
}

TEST_CASE("the shortest of the last trips counts, and an old one is forgotten") {
  ClockOffset clock;
  CHECK_FALSE(clock.measured());
  CHECK(clock.uncertainty_ns() == -1);
  trip(clock, 1 * kMs, 1 * kMs, 7 * kMs);
  trip(clock, 90 * kMs, 1 * kMs, 7 * kMs);
  CHECK(clock.offset_ns() == 7 * kMs);
  for (int i = 0; i < 8; ++i) {
    trip(clock, 2 * kMs, 2 * kMs, 9 * kMs);
  }
  CHECK(clock.offset_ns() == 9 * kMs);
}

TEST_CASE("answers that cannot be true are not counted") {
  ClockOffset clock;
  clock.add(0, 10, kWall, kWall);
  clock.add(20, 10, kWall, kWall);
  clock.add(10, 20, -1, kWall);
  clock.add(10, 20, INT64_MAX, kWall);
  clock.add(10, 60'000 * kMs, kWall, kWall);
  clock.add(INT64_MIN, 10, kWall, kWall);
  CHECK_FALSE(clock.measured());
}
