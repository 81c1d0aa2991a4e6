// HelperProgress: decides whether the threads and processes that a rank started make progress. Pure: samples
// in, lives out; no clock, no process. Much of what moves inside a rank moves for ever and says nothing: a
// heartbeat, a monitor's loop, a thread that polls a queue, NCCL's spinning proxy. So motion counts by who
// moves. What the main thread demonstrably waits for (its pid in wait4(), the other end of its pipe) and what
// multiprocessing has forked works if it moves at all. A thread of the same process must move in Python and
// compute as well: a native thread that spins, or a Python thread that only wakes up now and then, gives rise
// to doubt and no more. So must any other process.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/dump_manifest.h"

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <span>

namespace xpurun::launcher {

enum class HelperBond {
  thread,   // a Python thread of the rank
  awaited,  // a process that the main thread waits for, or one below it
  pool,     // forked by multiprocessing
  other,    // any other process below the rank
};

struct HelperKey {
  base::Pid pid = 0;
  base::Tid tid = 0;  // 0: the process
  friend auto operator<=>(const HelperKey&, const HelperKey&) = default;
};

struct HelperSample {
  HelperKey key;
  HelperBond bond = HelperBond::other;
  bool has_position = false;  // of Python
  uint64_t position = 0;
  double cpu_s = 0;  // used so far, by children that have ended too
  uint64_t io_bytes = 0;
};

class HelperProgress {
 public:
  struct Helper {
    HelperBond bond = HelperBond::other;
    model::HelperLife life = model::HelperLife::still;
    base::MonoNs last_motion = 0;  // or first seen
    double cpu_share = 0;          // CPU seconds per second, over the last samples
  };

  // Takes one sample of each helper. Helpers without a sample are forgotten.
  void update(base::MonoNs now, std::span<const HelperSample> samples);
  void forget() { tracks_.clear(); }

  // Of the liveliest helper.
  model::HelperLife life() const;
  std::map<HelperKey, Helper> helpers() const;

 private:
  struct Point {
    base::MonoNs at = 0;
    double cpu_s = 0;
    uint64_t io_bytes = 0;
    bool moved = false;
  };
  struct Track {
    Helper helper;
    bool has_position = false;
    uint64_t position = 0;
    std::deque<Point> points;
  };

  static void judge(Track& track);

  std::map<HelperKey, Track> tracks_;
};

}  // namespace xpurun::launcher
