#include "launcher/watch/helper_progress.h"

#include <doctest/doctest.h>

#include <functional>

using namespace xpurun;
using launcher::HelperBond;
using launcher::HelperProgress;
using launcher::HelperSample;
using model::HelperLife;

namespace {

constexpr base::MonoNs kSecondNs = 1'000'000'000;
constexpr base::MonoNs kMemory = 60 * kSecondNs;

// The sample of one helper at second t.
using At = std::function<HelperSample(int t)>;

// The helper's life after ten samples, one second apart.
HelperLife life_of(HelperBond bond, const At& at) {
  HelperProgress progress(kMemory);
  for (int t = 0; t < 10; ++t) {
    HelperSample s = at(t);
    s.key = {.pid = 7};
    s.bond = bond;
    progress.update(t * kSecondNs, std::vector{s});
  }
  return progress.life();
}

uint64_t place(int n) {
  return static_cast<uint64_t>(n) + 1;
}

HelperSample asleep(int) {
  return {.has_position = true, .position = 1, .cpu_s = 3, .io_bytes = 9};
}
HelperSample heartbeat(int t) {
  return {.has_position = true, .position = place(t), .cpu_s = 0.001 * t};
}
HelperSample computes(int t) {
  return {.has_position = true, .position = place(t), .cpu_s = 1.0 * t};
}
HelperSample spins_in_one_place(int t) {
  return {.has_position = true, .position = 1, .cpu_s = 1.0 * t};
}
// The loop of a client of dask: it reads files of /proc and computes a little, and no code of the program
// runs.
HelperSample beats(int t) {
  return {.loops = true, .cpu_s = 0.05 * t, .io_bytes = 16384U * static_cast<unsigned>(t)};
}
// A thread that checks, sleeps, and comes back with the same variables.
HelperSample checks_and_sleeps(int t) {
  return {.has_position = true, .position = t % 3 == 0 ? 4U : 5U, .cpu_s = 0.001 * t};
}
HelperSample program_that_works(int t) {
  return {.cpu_s = 0.5 * t};
}
HelperSample program_that_does_little(int t) {
  return {.cpu_s = 0.04 * t};
}
HelperSample program_that_looks_at_the_clock(int t) {
  return {.cpu_s = 0.002 * t};
}
HelperSample writes_files(int t) {
  return {.has_position = true, .position = 1, .io_bytes = static_cast<uint64_t>(t) << 21};
}

}  // namespace

TEST_CASE("a helper of any kind without progress is still") {
  for (const HelperBond bond :
       {HelperBond::thread, HelperBond::awaited, HelperBond::pool, HelperBond::other}) {
    CHECK(life_of(bond, asleep) == HelperLife::still);
    CHECK(life_of(bond, program_that_looks_at_the_clock) == HelperLife::still);
  }
}

TEST_CASE("heartbeats of an event loop are no progress; what it computes may be some") {
  for (const HelperBond bond :
       {HelperBond::thread, HelperBond::awaited, HelperBond::pool, HelperBond::other}) {
    CHECK(life_of(bond, beats) == HelperLife::still);
  }
  const At busy = [](int t) { return HelperSample{.loops = true, .cpu_s = 0.5 * t}; };
  CHECK(life_of(HelperBond::thread, busy) == HelperLife::stirring);
  CHECK(life_of(HelperBond::pool, busy) == HelperLife::working);
  // Code of the program that runs in the loop, or in a thread beside the loop, moves the position.
  const At moves = [](int t) { return HelperSample{.loops = true, .position = place(t)}; };
  CHECK(life_of(HelperBond::pool, moves) == HelperLife::working);
  CHECK(life_of(HelperBond::thread, moves) == HelperLife::stirring);
}

TEST_CASE("a thread that comes back to the same variables has made no progress") {
  HelperProgress progress(5 * kSecondNs);
  for (int t = 0; t < 20; ++t) {
    HelperSample s = checks_and_sleeps(t);
    s.key = {.pid = 7, .tid = 8};
    s.bond = HelperBond::thread;
    progress.update(t * kSecondNs, std::vector{s});
  }
  CHECK(progress.life() == HelperLife::still);
  CHECK(life_of(HelperBond::pool, checks_and_sleeps) == HelperLife::working);  // its position counts moves
}

TEST_CASE("a thread works if its position changes and it computes; a heartbeat only stirs") {
  CHECK(life_of(HelperBond::thread, computes) == HelperLife::working);
  CHECK(life_of(HelperBond::thread, heartbeat) == HelperLife::stirring);
  CHECK(life_of(HelperBond::thread, spins_in_one_place) == HelperLife::stirring);
}

TEST_CASE("an awaited process works unless it only spins at one Python position") {
  CHECK(life_of(HelperBond::awaited, heartbeat) == HelperLife::working);
  CHECK(life_of(HelperBond::awaited, computes) == HelperLife::working);
  CHECK(life_of(HelperBond::awaited, program_that_works) == HelperLife::working);
  CHECK(life_of(HelperBond::awaited, program_that_does_little) == HelperLife::working);
  CHECK(life_of(HelperBond::awaited, writes_files) == HelperLife::working);
  CHECK(life_of(HelperBond::awaited, spins_in_one_place) == HelperLife::stirring);
}

TEST_CASE("a worker of multiprocessing works if its position moves") {
  CHECK(life_of(HelperBond::pool, heartbeat) == HelperLife::working);
  CHECK(life_of(HelperBond::pool, spins_in_one_place) == HelperLife::stirring);
}

TEST_CASE("any other process must compute or write: a monitor only stirs") {
  CHECK(life_of(HelperBond::other, heartbeat) == HelperLife::stirring);
  CHECK(life_of(HelperBond::other, program_that_does_little) == HelperLife::stirring);
  CHECK(life_of(HelperBond::other, program_that_works) == HelperLife::working);
  CHECK(life_of(HelperBond::other, computes) == HelperLife::working);
  CHECK(life_of(HelperBond::other, writes_files) == HelperLife::working);
}

TEST_CASE("a stopped helper is still after some samples, and its last progress is known") {
  HelperProgress progress(kMemory);
  const auto look = [&](int t, uint64_t position) {
    const HelperSample s{
        .key = {.pid = 7}, .bond = HelperBond::pool, .has_position = true, .position = position};
    progress.update(t * kSecondNs, std::vector{s});
  };
  for (int t = 0; t < 5; ++t) {
    look(t, place(t));
  }
  CHECK(progress.life() == HelperLife::working);
  for (int t = 5; t < 13; ++t) {
    look(t, place(4));
  }
  CHECK(progress.life() == HelperLife::still);
  CHECK(progress.helpers().at({.pid = 7}).last_motion == 4 * kSecondNs);
}

TEST_CASE("the first sample proves nothing, and a new process is a new helper") {
  HelperProgress progress(kMemory);
  const auto look = [&](base::Pid pid, int t) {
    const HelperSample s{.key = {.pid = pid}, .bond = HelperBond::awaited, .cpu_s = 100.0 * pid};
    progress.update(t * kSecondNs, std::vector{s});
  };
  look(7, 0);
  CHECK(progress.life() == HelperLife::still);
  look(8, 1);
  CHECK(progress.life() == HelperLife::still);
  CHECK(progress.helpers().size() == 1);
}

TEST_CASE("the most active helper decides") {
  HelperProgress progress(kMemory);
  for (int t = 0; t < 5; ++t) {
    HelperSample stuck = asleep(t);
    stuck.key = {.pid = 1};
    HelperSample works = computes(t);
    works.key = {.pid = 2};
    progress.update(t * kSecondNs, std::vector{stuck, works});
  }
  CHECK(progress.life() == HelperLife::working);
  CHECK(progress.helpers().at({.pid = 1}).life == HelperLife::still);
}

TEST_CASE(
    "a thread that has moved within the timeout may be at work, and moves of other helpers count less long") {
  for (const HelperBond bond : {HelperBond::thread, HelperBond::pool}) {
    HelperProgress progress(kMemory);
    const auto life_at = [&](int t, int position) {
      const HelperSample s{
          .key = {.pid = 7}, .bond = bond, .has_position = true, .position = place(position)};
      progress.update(t * kSecondNs, std::vector{s});
      return progress.life();
    };
    for (int t = 0; t < 20; ++t) {
      CHECK(life_at(t, 0) == HelperLife::still);
    }
    CHECK(life_at(20, 1) != HelperLife::still);
    for (int t = 21; t < 79; ++t) {
      life_at(t, 1);
    }
    CHECK(life_at(79, 1) == (bond == HelperBond::thread ? HelperLife::stirring : HelperLife::still));
    CHECK(life_at(80, 1) == HelperLife::still);
  }
}
