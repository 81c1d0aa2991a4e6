// The budget with simulated programs: the sampling interval settles, and its cost is at most the budget and
// close
// to it.
#include "preload/record/budget.h"

#include <cstdio>

using namespace xpurun::preload;

namespace {

// Calls per second, and the cost of each in ns.
struct Program {
  double calls, call_ns, collectives;
};

struct Settled {
  Periods periods;
  double ppm;
  int changes;  // after the first ten seconds
};

Settled run(Budget budget, const Program& program, uint64_t ppm) {
  constexpr double kPairNs = 9000;
  constexpr double kMarkNs = 1500;
  constexpr double kRoundNs = 18'000;  // of a round every 50 ms
  constexpr uint64_t kStepNs = 50'000'000;
  Spent spent{};
  Settled out{budget.update(1, spent, ppm), 0, 0};
  for (uint64_t i = 1; i <= 400; ++i) {
    const double seconds = 0.05;
    const double sample = seconds * program.calls / out.periods.sample * kPairNs;
    const double mark = seconds * program.collectives / out.periods.mark * kMarkNs;
    const double other = seconds * program.calls * program.call_ns;
    spent.sample_ns += static_cast<uint64_t>(sample);
    spent.mark_ns += static_cast<uint64_t>(mark);
    const double poll = kRoundNs / out.periods.round;
    spent.other_ns += static_cast<uint64_t>(other);
    spent.poll_ns += static_cast<uint64_t>(poll);
    out.ppm = (sample + mark + poll + other) / seconds / 1e3;
    const Periods now = budget.update(1 + i * kStepNs, spent, ppm);
    out.changes += i > 200 && (now.sample != out.periods.sample || now.mark != out.periods.mark ||
                               now.round != out.periods.round)
                       ? 1
                       : 0;
    out.periods = now;
  }
  return out;
}

int g_wrong = 0;

void expect(const char* what, bool good, const Settled& s) {
  if (!good) {
    std::printf("WRONG %s: 1 in %u timed, 1 in %u marked, %.0f ppm, %d changes\n", what, s.periods.sample,
                s.periods.mark, s.ppm, s.changes);
    ++g_wrong;
  }
}

}  // namespace

int main() {
  Settled s = run(Budget(64), {5000, 60, 1300}, 1000);
  expect("light: a step of 18 ms", s.ppm <= 1000 && s.ppm > 400 && s.changes == 0, s);
  s = run(Budget(1), {5000, 60, 1300}, 5000);
  expect("full: the same", s.ppm <= 5000 && s.ppm > 2000 && s.changes == 0 && s.periods.mark == 1, s);
  s = run(Budget(64), {100, 60, 20}, 1000);
  expect("light: long steps", s.periods.sample <= 2 && s.periods.mark == 1 && s.changes == 0, s);
  s = run(Budget(1), {1000, 60, 200}, 1'000'000'000);
  expect("a budget without a limit", s.periods.sample == 1 && s.periods.mark == 1, s);
  s = run(Budget(64), {200'000, 60, 1000}, 1000);
  // 200,000 calls a second, 9 us a pair, 100 us a second for them: one in 32,768 takes 55 us.
  expect("counting alone is too dear", s.periods.sample == 1u << 15 && s.changes == 0, s);
  s = run(Budget(64), {1000, 60, 100'000}, 1000);
  expect("many collectives", s.ppm <= 1000 && s.periods.mark == 256 && s.changes == 0, s);
  s = run(Budget(64), {200'000, 60, 100'000}, 1000);
  // Counting takes 12 times the budget; of 150,000 us a second for all marks 100 remain.
  expect("marks where counting is too dear",
         s.periods.mark == 1024 && s.periods.sample == 1u << 15 && s.changes == 0, s);
  s = run(Budget(64), {5000, 60, 60}, 1000);
  expect("rounds get rarer", s.periods.round == 4 && s.ppm <= 1000 && s.changes == 0, s);
  s = run(Budget(64), {5000, 60, 60}, 10'000);
  expect("rounds that are cheap", s.periods.round == 1 && s.changes == 0, s);
  return g_wrong;
}
