#include "launcher/watch/tight_loop.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kPoll = 1'000'000'000;

// A thread that is sampled once a second.
struct Sampled {
  TightLoop loop;
  base::MonoNs now = 0;
  base::ProcRunTime run_time;

  // `around`: the frames and variables; `cpu`, `queue`: of the second since the last sample.
  bool moves(uint64_t around, int64_t instruction, double cpu = 1, double queue = 0) {
    now += kPoll;
    run_time.cpu_ns += static_cast<uint64_t>(cpu * kPoll);
    run_time.queue_ns += static_cast<uint64_t>(queue * kPoll);
    return loop.moves(now,
                      {.fingerprint = around * 1000 + static_cast<uint64_t>(instruction),
                       .around = around,
                       .instruction = instruction,
                       .has_python = true},
                      run_time);
  }
};

}  // namespace

TEST_CASE("a thread that circles in one function without a sleep stands still") {
  Sampled t;
  CHECK(t.moves(1, 20));        // the first sample
  CHECK_FALSE(t.moves(1, 10));  // back, as in a loop
  CHECK_FALSE(t.moves(1, 20));
  CHECK(t.moves(1, 22));  // further on than before: perhaps behind the loop
  for (int i = 0; i < 20; ++i) {
    CHECK_FALSE(t.moves(1, 10 + i % 7 * 2, 0.3, 0.6));  // on a machine with a load
    CHECK(t.loop.circling());
  }
  CHECK(t.moves(2, 10));
  CHECK_FALSE(t.loop.circling());
}

TEST_CASE("other frames, other variables and code that goes forward are progress") {
  Sampled t;
  CHECK(t.moves(1, 20));
  CHECK(t.moves(2, 10));
  CHECK(t.moves(1, 20));
  CHECK(t.moves(1, 22));
  CHECK(t.moves(1, 24));
  CHECK_FALSE(t.moves(1, 24));
  CHECK_FALSE(t.loop.circling());
  CHECK_FALSE(t.moves(1, 22));
  CHECK(t.loop.circling());
}

TEST_CASE("a loop that sleeps moves") {
  Sampled t;
  CHECK(t.moves(1, 10));
  for (int i = 0; i < 5; ++i) {
    CHECK(t.moves(1, 20, 0.1, 0.3));
    CHECK_FALSE(t.moves(1, 20, 0.1, 0.3));
    CHECK(t.moves(1, 10, 0.1, 0.3));
  }
}

TEST_CASE("a stop for a dump is no sleep of the thread") {
  Sampled t;
  CHECK(t.moves(1, 20));
  t.loop.held();
  CHECK_FALSE(t.moves(1, 10, 0, 0));
  CHECK(t.moves(1, 20, 0, 0));
}

TEST_CASE("without positions nothing is known") {
  Sampled t;
  CHECK(t.moves(1, 20));
  t.loop.forget();
  CHECK(t.moves(1, 10));
}
