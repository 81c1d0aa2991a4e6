#include "preload/record/step_anchor.h"

#include "preload/core/calibration.h"
#include "preload/core/clock.h"

namespace xpurun::preload {

namespace {

// Of short steps, not every one has an event: on average one in this time, which limits the cost to 0.05 %. A
// host that runs ahead ends several steps within milliseconds, so the events of some steps may be saved up.
constexpr uint64_t kApartNs = 10 * kNsPerMs;
constexpr uint64_t kSaved = 64;
// Every collective is timed in kAllOf of kAllEvery steps. A cycle of two optimizers counts as two steps here.
constexpr uint32_t kAllEvery = 32;
constexpr uint32_t kAllOf = 6;
// The first of them moves, so that what happens in every 8th step is seen too.
uint32_t first_of_all(uint64_t steps) {
  return 1 + static_cast<uint32_t>(steps / kAllEvery * 11 % (kAllEvery - kAllOf - 1));
}
// Cost of one timed collective on the host and the GPU, and the inverse of the share of time that may go
// there.
constexpr uint64_t kCollectiveNs = kProfilerNs + 1500;
constexpr uint64_t kAllShare = 3000;
constexpr uint64_t kRarest = 1024;  // blocks of kAllEvery steps
// Steps without a collective after which kernels and matmuls serve.
constexpr uint32_t kWithout = 4;

// Written by the thread that ends the steps; a second such thread does no harm.
constinit std::atomic<uint64_t> g_steps{0};
constinit std::atomic<uint64_t> g_last_ns{0};
constinit std::atomic<uint64_t> g_saved_ns{kSaved * kApartNs};
constinit std::atomic<uint32_t> g_without{0};
constinit std::atomic<uint64_t> g_block_began_ns{0};
constinit std::atomic<uint64_t> g_block_ns{0};  // of the latest block of kAllEvery steps; 0: none has ended
constinit std::atomic<uint64_t> g_timed{0};     // collectives of the latest steps that were timed as a whole

// Collectives after which the rarest of them is chosen, at first and then again and again.
constexpr uint32_t kFirstChoice = 64;
constexpr uint32_t kNextChoice = 512;
constexpr uint32_t kKinds = 16;  // that are counted
constexpr uint32_t kLeastOften = 2;

struct Kind {
  std::atomic<uint64_t> kind{0};
  std::atomic<uint32_t> often{0};
};

constinit std::atomic<bool> g_marked{false};  // the program's steps have ends
constinit std::atomic<uint64_t> g_rarest{0};  // 0: not chosen
constinit std::atomic<uint32_t> g_collectives{0};
constinit std::atomic<bool> g_chosen{false};
constinit Kind g_kinds[kKinds];

template <typename T>
T get(const std::atomic<T>& number) {
  return number.load(std::memory_order_relaxed);
}

template <typename T>
void put(std::atomic<T>& number, T value) {
  number.store(value, std::memory_order_relaxed);
}

bool may_have_an_event(uint64_t now_ns) {
  const uint64_t last = get(g_last_ns);
  const uint64_t since = last == 0 ? 0 : now_ns - last;
  uint64_t saved = get(g_saved_ns) + since;
  saved = saved < kSaved * kApartNs ? saved : kSaved * kApartNs;
  const bool may = saved >= kApartNs;
  put(g_last_ns, now_ns);
  put(g_saved_ns, may ? saved - kApartNs : saved);
  return may;
}

// Ranks have different numbers of collectives and messages. All time the blocks whose numbers are multiples
// of a power of two, so the blocks of the rank that may time the fewest are timed by all.
bool may_time_all(uint64_t block) {
  const uint64_t took_ns = get(g_block_ns);
  const uint64_t need_ns = get(g_timed) * kCollectiveNs * kAllShare;
  uint64_t every = 1;
  while (took_ns != 0 && every * took_ns < need_ns && every < kRarest) {
    every *= 2;
  }
  return block % every == 0;
}

void count_kind(uint64_t kind) {
  for (Kind& one : g_kinds) {
    if (get(one.kind) == 0) {
      put(one.kind, kind);
    }
    if (get(one.kind) == kind) {
      put(one.often, get(one.often) + 1);
      return;
    }
  }
}

// The first of the rarest. Several threads may count too little, which moves the begin of steps at most.
uint64_t take_rarest() {
  uint64_t rarest = 0;
  uint32_t least = 0;
  for (Kind& one : g_kinds) {
    const uint32_t often = get(one.often);
    if (often >= kLeastOften && (rarest == 0 || often < least)) {
      rarest = get(one.kind);
      least = often;
    }
    put(one.kind, uint64_t{0});
    put(one.often, 0U);
  }
  return rarest;
}

void next_step(uint64_t now_ns) {
  const uint64_t steps = get(g_steps) + 1;
  put(g_steps, steps);
  if (steps % kAllEvery == 0) {
    put(g_block_ns, get(g_block_began_ns) == 0 ? 0 : now_ns - get(g_block_began_ns));
    put(g_block_began_ns, now_ns);
  }
  const uint32_t first = first_of_all(steps);
  if (steps % kAllEvery == first && may_time_all(steps / kAllEvery)) {
    put(g_timed, uint64_t{0});
    put(g_state.all_collectives, true);
  } else if (steps % kAllEvery == first + kAllOf) {
    put(g_state.all_collectives, false);
  }
  const bool unused = (get(g_state.due) & kCollectiveDue) != 0;
  const uint32_t without = unused ? get(g_without) + 1 : 0;
  put(g_without, without);
  if (may_have_an_event(now_ns)) {
    // In the steps that are timed as a whole, the first work also shows whether the GPU waits for the host.
    const bool work = without >= kWithout || get(g_state.all_collectives);
    put(g_state.due, static_cast<uint8_t>(kCollectiveDue | (work ? kWorkDue : 0)));
  }
}

}  // namespace

void step_ended(uint64_t now_ns) {
  if (!get(g_marked)) {
    // Steps of collectives before, such as those that set up the job, may differ between the ranks.
    put(g_steps, uint64_t{0});
    put(g_marked, true);
  }
  next_step(now_ns);
}

void collective_comes(uint64_t kind, uint64_t now_ns) {
  if (get(g_marked)) {
    return;
  }
  const uint32_t seen = get(g_collectives) + 1;
  const bool choose = seen >= (get(g_chosen) ? kNextChoice : kFirstChoice);
  put(g_collectives, choose ? 0 : seen);
  count_kind(kind);
  if (choose) {
    put(g_rarest, take_rarest());
    put(g_chosen, true);
  }
  if (get(g_rarest) == kind) {
    next_step(now_ns);
  }
}

bool take_due(uint8_t bit) {
  return (g_state.due.fetch_and(static_cast<uint8_t>(~bit), std::memory_order_relaxed) & bit) != 0;
}

void one_of_all_collectives() {
  g_timed.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace xpurun::preload

// Python's bootstrap calls this at the end of an optimizer's step.
extern "C" __attribute__((visibility("default"))) void xpurun_step_ended() {
  xpurun::preload::step_ended(xpurun::preload::now_ns());
}
