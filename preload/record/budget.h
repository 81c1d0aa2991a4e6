// Keeps the cost of timing below the budget. The cost of a window is the library's time on the program's
// threads, the poller's CPU time, and the assumed GPU cost of the events. If the cost exceeds the budget, the
// sampling interval of calls or the interval of completion events doubles, whichever costs more; if the cost
// is well below, an interval halves. The poller's rounds become rarer until they take a small part of the
// budget. A tenth each is reserved for samples and completion events: where counting alone exceeds the
// budget, these tenths are all that is spent on them. Poller's thread only.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

// Totals since the process began, in ns.
struct Spent {
  uint64_t sample_ns;  // timing events and NCCL's times: host and GPU
  uint64_t mark_ns;    // completion events after collectives: host and GPU
  uint64_t poll_ns;    // CPU time of the poller
  uint64_t other_ns;   // counting
};

// One call in `sample` is timed, one collective in `mark` gets a completion event, and the poller's rounds
// are `round` times as far apart as at the highest rate; powers of two.
struct Periods {
  uint32_t sample;
  uint32_t mark;
  uint32_t round;
};

class Budget {
 public:
  explicit constexpr Budget(uint32_t first_sample) : periods_{first_sample, 1, 1} {}

  // `ppm` is the allowed share of wall time in parts per million. Returns the periods to use from now on.
  Periods update(uint64_t now_ns, const Spent& spent, uint64_t ppm);
  // After another level was in force: starts the next window now.
  void restart() { began_ns_ = 0; }

 private:
  static constexpr uint64_t kWindowNs = 200'000'000;
  static constexpr uint32_t kLongestSample = 1u << 16;
  static constexpr uint32_t kLongestMark = 1u << 10;
  static constexpr uint32_t kLongestRound = 4;

  void adapt_rounds(double poll, double most);
  void adapt_events(double sample, double mark, double other, double most);

  uint64_t began_ns_ = 0;
  Spent at_begin_{};
  Periods periods_;
};

}  // namespace xpurun::preload
