// Keeps the cost of timing below the budget. The cost of a while is what our code took on the program's
// threads, our own thread's CPU time, and what the events are taken to cost the GPU; while it is above the
// budget, one in twice as many calls is timed, or one in twice as many collectives gets a mark, whichever
// costs more; a fifth of the budget is for timing in any case. The poller's alone.
#pragma once

#include <stdint.h>

namespace xpurun::preload {

// Since the process began, in ns.
struct Spent {
  uint64_t sample_ns;  // timing events: host and GPU
  uint64_t mark_ns;    // events without timing behind collectives: host and GPU
  uint64_t other_ns;   // counting, polling
};

// One of so many; powers of two.
struct Periods {
  uint32_t sample;
  uint32_t mark;
};

class Budget {
 public:
  explicit constexpr Budget(uint32_t first_sample_period) : periods_{first_sample_period, 1} {}

  // `ppm` is the most of wall time that may go. Returns the periods to use from now on.
  Periods update(uint64_t now_ns, const Spent& spent, uint64_t ppm);
  // The level was another one for a while: the next window begins now.
  void restart() { began_ns_ = 0; }

 private:
  static constexpr uint64_t kWindowNs = 200'000'000;
  static constexpr uint32_t kLongestSample = 1u << 16;
  static constexpr uint32_t kLongestMark = 1u << 6;

  void adapt(double sample, double mark, double other, double most);

  uint64_t began_ns_ = 0;
  Spent at_begin_{};
  Periods periods_;
};

}  // namespace xpurun::preload
