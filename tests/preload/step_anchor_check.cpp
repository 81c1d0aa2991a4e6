// Which collectives and kernels are timed as the first of their step, and in which steps all collectives are.
#include "preload/core/clock.h"
#include "preload/record/step_anchor.h"

#include <cstdio>

namespace xpurun::preload {
constinit State g_state;
__thread ThreadState t_thread = {};
uint64_t now_ns() {
  return 0;
}
}  // namespace xpurun::preload

namespace {

using namespace xpurun::preload;

int g_wrong = 0;

void expect(const char* what, uint64_t found, uint64_t least, uint64_t most) {
  if (found < least || found > most) {
    std::printf("WRONG %s: %llu, not %llu to %llu\n", what, static_cast<unsigned long long>(found),
                static_cast<unsigned long long>(least), static_cast<unsigned long long>(most));
    ++g_wrong;
  }
}

struct Timed {
  uint64_t first = 0;  // collectives
  uint64_t works = 0;
  uint64_t whole = 0;  // steps
};

// `steps` steps of `step_ns` with `collectives` each.
Timed train(uint64_t& now, int steps, uint64_t step_ns, int collectives) {
  Timed out;
  for (int i = 0; i < steps; ++i) {
    for (int c = 0; c < collectives; ++c) {
      collective_comes(c == 0 ? 3 : 4, now);
      out.first += is_first_of_step(kCollectiveDue) ? 1 : 0;
      if (are_all_collectives_timed()) {
        one_of_all_collectives();
      }
    }
    for (int w = 0; w < 3; ++w) {
      out.works += is_first_of_step(kWorkDue) ? 1 : 0;
    }
    out.whole += are_all_collectives_timed() ? 1 : 0;
    now += step_ns;
    step_ended(now);
  }
  return out;
}

// `rounds` rounds of an inference: 9 equal collectives, then another one.
Timed infer(uint64_t& now, int rounds, uint64_t round_ns) {
  Timed out;
  for (int i = 0; i < rounds; ++i) {
    for (uint64_t c = 0; c < 10; ++c) {
      collective_comes(c == 9 ? 77 : 5, now);
      const bool first = is_first_of_step(kCollectiveDue);
      expect("the first is the rarest", first && c != 9 ? 1 : 0, 0, 0);
      out.first += first ? 1 : 0;
      now += round_ns / 10;
    }
    out.whole += are_all_collectives_timed() ? 1 : 0;
  }
  return out;
}

}  // namespace

int main() {
  uint64_t now = 1'000'000'000;
  const Timed inferred = infer(now, 326, 30 * kNsPerMs);
  expect("first collectives without marked steps", inferred.first, 319, 320);
  expect("rounds that are timed as a whole", inferred.whole, 54, 60);
  const Timed usual = train(now, 320, 30 * kNsPerMs, 8);
  expect("first collectives", usual.first, 319, 320);
  expect("steps that are timed as a whole", usual.whole, 54, 60);
  expect("their first works", usual.works, 54, 60);
  // 2 ms a step: an event each 10 ms, besides those that were saved up.
  const Timed brief = train(now, 3200, 2 * kNsPerMs, 8);
  expect("first collectives of brief steps", brief.first, 640, 640 + 65);
  expect("brief steps that are timed as a whole", brief.whole, 8, 100);
  // No collectives: the first work serves, after some steps.
  const Timed alone = train(now, 100, 30 * kNsPerMs, 0);
  expect("first works", alone.works, 95, 100);
  // Collectives again.
  const Timed again = train(now, 96, 30 * kNsPerMs, 8);
  expect("first collectives again", again.first, 96, 96);
  expect("first works again", again.works, 12, 22);
  std::printf(g_wrong == 0 ? "ok\n" : "%d wrong\n", g_wrong);
  return g_wrong == 0 ? 0 : 1;
}
