// TimelinePlan: when the traces of --timeline begin and end. Steps are counted by the on-line step watch:
// step 1 is the first step whose begin and end it has seen. Traces begin at a full second of UTC, so that all
// ranks, and all nodes with equal counts, begin together. The trace of the first steps begins at once. Pure:
// no clock, no I/O.
#pragma once

#include "common/base/clock.h"
#include "launcher/options/values/timeline_specs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class TimelinePlan {
 public:
  // The state of the job at one moment, about ten times a second.
  struct Look {
    base::MonoNs now = 0;
    int64_t wall_ns = 0;
    size_t ranks = 0;      // living ranks that use a GPU
    uint64_t slowest = 0;  // steps that have ended
    uint64_t fastest = 0;
    double step_s = -1;    // mean of the last steps; negative: no step was seen
    bool tracing = false;  // a trace runs or waits for its start, whoever asked for it
  };
  struct Action {
    enum class Kind {
      none,
      start,   // the trace of `spec` at `start_wall_ns`
      end,     // the trace of `spec`: everything is in it
      missed,  // the steps of `spec` have passed while another trace was running
    };
    Kind kind = Kind::none;
    TimelineSpec spec;
    int64_t start_wall_ns = 0;  // a full second; 0: at once
    double limit_s = 0;         // the trace ends then at the latest
    uint32_t count = 0;         // most calls of a rank
  };

  explicit TimelinePlan(std::vector<TimelineSpec> specs) : specs_(std::move(specs)) {}

  bool empty() const { return specs_.empty(); }
  Action look(const Look& look);
  // The trace that look() has started has ended, for any reason.
  void trace_ended() { running_.reset(); }
  // Specs whose traces have not begun.
  std::vector<TimelineSpec> not_begun() const;
  // Steps of the fastest rank.
  uint64_t counted() const { return counted_; }

 private:
  struct Running {
    TimelineSpec spec;
    base::MonoNs begins = 0;
    base::MonoNs reached = 0;  // the fastest rank has ended the last step; 0: not yet
    base::MonoNs done = 0;     // the last step was counted, or the time is over; 0: not yet
    base::MonoNs until = 0;    // end of a trace of every:T or first:DURATION; 0: steps end the trace
  };

  void note_steps(const Look& look);
  bool is_over(const Look& look);
  // When the trace of the next steps should begin; nothing while that is not known or far away.
  std::optional<int64_t> steps_due(const Look& look) const;
  std::optional<int64_t> period_due(const Look& look) const;
  Action start(const TimelineSpec& spec, int64_t at_wall_ns, const Look& look);

  std::vector<TimelineSpec> specs_;  // steps in order, then every:T
  size_t next_ = 0;                  // of the steps
  uint64_t counted_ = 0;             // fastest rank
  base::MonoNs counted_at_ = 0;
  int64_t last_period_ = 0;  // start of the latest trace of every:T
  std::optional<Running> running_;
};

}  // namespace xpurun::launcher
