// Who is late at collectives, and how much of the time they take.
#include "launcher/collect/lateness.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kMillis = 1'000'000;
constexpr base::MonoNs kStep = 100 * kMillis;

// Steps of 100 ms with one collective of 20 ms after its last arrival; `late` of the rank arrives 10 ms
// later.
void add_steps(Lateness& lateness, int ranks, base::Rank late, int steps, uint64_t group = 7) {
  for (int step = 0; step < steps; ++step) {
    const base::MonoNs begin = kStep * (step + 1);
    for (base::Rank r = 0; r < ranks; ++r) {
      const base::MonoNs own = begin + (r == late ? 10 * kMillis : 0);
      lateness.add(r, {group, static_cast<uint64_t>(step) + 1, own, begin + 30 * kMillis});
    }
  }
}

}  // namespace

TEST_CASE("lateness: the late rank is told with its cost, in any number of ranks") {
  for (const int ranks : {2, 3, 4, 8}) {
    Lateness lateness;
    add_steps(lateness, ranks, 1, 11);
    lateness.finish_window(0, kStep * 1000);
    const RankLateness late = lateness.of(1);
    CHECK(late.late_s == doctest::Approx(0.110));
    CHECK(late.cost_s == doctest::Approx(0.110));
    CHECK(late.looked_s == doctest::Approx(1.02));  // from the first begin to the last end
    CHECK(late.late_share == doctest::Approx(0.110 / 1.02));
    const RankLateness other = lateness.of(0);
    CHECK(other.late_s == 0);
    CHECK(other.cost_s == 0);
    CHECK(other.late_share == 0);
    CHECK(other.exposed_share == doctest::Approx(11 * 0.030 / 1.03));
  }
}

TEST_CASE("lateness: two late ranks cost what the later one costs alone") {
  Lateness lateness;
  for (const auto& [rank, late_ms] : {std::pair{0, 0}, {1, 0}, {2, 10}, {3, 15}}) {
    lateness.add(rank, {1, 1, kStep + late_ms * kMillis, 2 * kStep});
  }
  lateness.finish_window(0, kStep * 10);
  CHECK(lateness.of(2).late_s == doctest::Approx(0.010));
  CHECK(lateness.of(2).cost_s == 0);
  CHECK(lateness.of(3).late_s == doctest::Approx(0.015));
  CHECK(lateness.of(3).cost_s == doctest::Approx(0.005));
}

TEST_CASE("lateness: windows add up, and the shares are those of the latest") {
  Lateness lateness;
  add_steps(lateness, 2, 1, 5);
  lateness.finish_window(0, kStep * 1000);
  add_steps(lateness, 2, -1, 5);
  lateness.finish_window(0, kStep * 1000);
  CHECK(lateness.of(1).late_s == doctest::Approx(0.050));
  CHECK(lateness.of(1).late_share == 0);
  CHECK(lateness.empty());
}

TEST_CASE("lateness: what lies outside the window, or lacks a rank, is not judged") {
  Lateness lateness;
  add_steps(lateness, 2, 1, 10);
  lateness.finish_window(3 * kStep - 1, 6 * kStep);  // steps 3 to 5
  CHECK(lateness.of(1).late_s == doctest::Approx(0.030));
  // One of three ranks is missing in a call: the last but one is not known.
  Lateness partly;
  add_steps(partly, 3, -1, 1);
  partly.add(0, {7, 2, 2 * kStep, 3 * kStep});
  partly.add(1, {7, 2, 2 * kStep + 50 * kMillis, 3 * kStep});
  partly.finish_window(0, kStep * 10);
  CHECK(partly.of(1).late_s == 0);
  // A communicator whose other ranks are on other nodes.
  Lateness alone;
  add_steps(alone, 1, 0, 5);
  alone.finish_window(0, kStep * 10);
  CHECK(alone.of(0).looked_s == 0);
  CHECK(alone.of(0).late_share < 0);
  CHECK(alone.of(5).late_share < 0);
}

TEST_CASE("lateness: compute hides communication") {
  Lateness lateness;
  add_steps(lateness, 2, -1, 2);
  lateness.add_compute(0, kStep, kStep + 15 * kMillis);
  lateness.add_compute(0, kStep + 10 * kMillis, kStep + 20 * kMillis);  // on another stream
  lateness.finish_window(0, kStep * 10);
  CHECK(lateness.of(0).exposed_share == doctest::Approx(0.040 / 0.130));
  CHECK(lateness.of(1).exposed_share == doctest::Approx(0.060 / 0.130));
}

TEST_CASE("lateness: a window with too many calls says nothing, the next one does") {
  Lateness lateness;
  add_steps(lateness, 2, 1, 200'000);
  lateness.finish_window(0, kStep * 1'000'000);
  CHECK(lateness.of(1).late_s == 0);
  add_steps(lateness, 2, 1, 5);
  lateness.finish_window(0, kStep * 1000);
  CHECK(lateness.of(1).late_s == doctest::Approx(0.050));
}
