// Collector: the segments of all processes that use a GPU. Makes one when a process asks, drains them again
// and again, keeps them when the process has gone (as long as they are wanted for the record). The event
// loop's thread only.
#pragma once

#include "launcher/collect/rank_timing.h"
#include "launcher/collect/shared_segment.h"

#include <map>
#include <vector>

namespace xpurun::launcher {

// Who a process is, as the caller knows it.
struct TimedProcess {
  base::Pid pid = 0;
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  bool alive = true;
};

class Collector {
 public:
  Collector(wire::Level level, uint32_t budget_ppm) : level_(level), budget_ppm_(budget_ppm) {}

  // The descriptor to send; valid until sent(). A process that execs asks again and gets a new segment.
  base::Result<int> attach(base::Pid pid);
  void sent(base::Pid pid);
  bool empty() const { return segments_.empty(); }

  void set_level(wire::Level level);
  wire::Level level() const { return level_; }

  // Takes what has come since the last call.
  void drain(base::MonoNs now);
  // Everything about one process; nothing if it has never asked for a segment.
  const RankTiming* read(const TimedProcess& process);
  // Forgets processes of which nobody will ask again.
  void forget(base::Pid pid) { segments_.erase(pid); }
  std::vector<base::Pid> pids() const;

 private:
  struct Timed {
    SharedSegment segment;
    RankTiming timing;
  };

  static void add_event(Timed& timed, const wire::Event& event, base::MonoNs now);
  static void refresh(Timed& timed);

  wire::Level level_;
  uint32_t budget_ppm_;
  std::map<base::Pid, Timed> segments_;
};

}  // namespace xpurun::launcher
