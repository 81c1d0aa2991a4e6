// Collector: owns the segments of all processes that use a GPU. It creates a segment when a process asks for
// one, drains all segments ten times a second, and keeps the segment of a dead process for the final record.
// Event loop's thread only.
#pragma once

#include "common/model/timing/peaks.h"
#include "launcher/collect/rank_timing.h"
#include "launcher/collect/shared_segment.h"

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

namespace xpurun::launcher {

// Identity of a process, supplied by the caller.
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
  // Closes the descriptor; the mapping stays.
  void sent(base::Pid pid);
  bool empty() const { return segments_.empty(); }

  // Peak FLOP/s per device, for the throughput levels of the XPU_TIMER_* series.
  void use_peaks(model::Peaks peaks) { peaks_ = std::move(peaks); }
  // From now on statistics are also kept per matmul shape.
  void keep_shapes() { keep_shapes_ = true; }

  // Also applies to processes that attach later.
  void set_level(wire::Level level);
  wire::Level level() const { return level_; }
  // Also applies to processes that attach later.
  void set_host_events(HostEvents wanted);
  // Calls that are timed regardless of their cost. Also applies to processes that attach later.
  void set_every(wire::Every every);

  // Asks the process to take part in the capture of that number. Does nothing if it has no segment.
  void request_capture(base::Pid pid, uint32_t number);

  // Called by drain() with new events of one process. Their table entries are ready. Of `timing` only the GPU
  // and the health counters are filled.
  using EventHandler = std::function<void(base::Pid pid, const RankTiming& timing,
                                          std::span<const wire::Event>, const wire::Segment& memory)>;
  void on_events(EventHandler handler) { on_events_ = std::move(handler); }

  // Reads the events since the last call.
  void drain(base::MonoNs now);
  // Everything about one process; null if it has never requested a segment.
  const RankTiming* read(const TimedProcess& process);
  // Releases the segment of a process that will not be read again.
  void forget(base::Pid pid) { segments_.erase(pid); }
  // All processes with a segment, including dead ones that were not forgotten.
  std::vector<base::Pid> pids() const;

 private:
  // Counts at one moment, for rates.
  struct Mark {
    base::MonoNs at = 0;
    double flop = 0;
    uint64_t collectives = 0;
    std::map<ShapeKey, uint64_t> shape_calls;
  };
  struct Timed {
    SharedSegment segment;
    RankTiming timing;
    std::deque<Mark> marks;  // one second apart, oldest first
  };

  void add_event(Timed& timed, const wire::Event& event, base::MonoNs now) const;
  void mark(Timed& timed, base::MonoNs now) const;
  static void refresh_identity(Timed& timed);
  static void refresh(Timed& timed);

  wire::Level level_;
  uint32_t budget_ppm_;
  HostEvents host_events_ = HostEvents::no;
  wire::Every every_ = wire::Every::none;
  std::map<base::Pid, Timed> segments_;
  EventHandler on_events_;
  model::Peaks peaks_;
  bool keep_shapes_ = false;
};

}  // namespace xpurun::launcher
