// HelperProgress: decides whether the threads and processes that a rank started make progress. Pure: samples
// in, liveness out; no clock, no process. Many activities of a rank continue in a hang and prove nothing: a
// heartbeat, a monitor's loop, a thread that polls a queue, NCCL's spinning proxy. So the criterion depends
// on the helper. A helper that the main thread demonstrably waits for (its pid in wait4(), the other end of
// its pipe), or that multiprocessing has forked, works if it shows any progress. A thread of the same process
// must change its Python position and also compute: a native thread that spins, or a Python thread that only
// wakes up now and then, only raises doubt. The same holds for any other process. An event loop that runs no
// code of the program's has heartbeats whatever the program does: only what it computes counts. A thread that
// comes back to a position that it has had, with the same variables, has made no progress in between.
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
  awaited,  // a process that the main thread waits for, or a descendant of such a process
  pool,     // forked by multiprocessing
  other,    // any other process below the rank
};

struct HelperKey {
  base::Pid pid = 0;
  base::Tid tid = 0;  // 0: the whole process
  friend auto operator<=>(const HelperKey&, const HelperKey&) = default;
};

struct HelperSample {
  HelperKey key;
  HelperBond bond = HelperBond::other;
  bool has_position = false;  // a Python position could be read
  bool loops = false;         // in the event loop of a library, without code of the program's
  uint64_t position = 0;      // changes when the helper is seen to make progress
  double cpu_s = 0;           // used so far, including ended children
  uint64_t io_bytes = 0;
};

class HelperProgress {
 public:
  // A thread that has moved within `memory` may still be at work.
  explicit HelperProgress(base::MonoNs memory) : memory_(memory) {}

  struct Helper {
    HelperBond bond = HelperBond::other;
    model::HelperLife life = model::HelperLife::still;
    base::MonoNs last_motion = 0;  // or time of the first sample
    double cpu_share = 0;          // CPU seconds per second, over the last samples
  };

  // Takes one sample of each helper. Helpers without a sample are forgotten.
  void update(base::MonoNs now, std::span<const HelperSample> samples);
  void forget() { tracks_.clear(); }

  // The liveness of the most active helper.
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
    bool loops = false;
    uint64_t position = 0;
    base::MonoNs moved_at = 0;  // 0: never
    std::deque<uint64_t> had;   // the latest positions, each once
    std::deque<Point> points;
  };

  void judge(Track& track) const;
  static bool moves(Track& track, const HelperSample& sample, bool is_new);

  base::MonoNs memory_;
  std::map<HelperKey, Track> tracks_;
};

}  // namespace xpurun::launcher
