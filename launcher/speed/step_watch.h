// StepWatch: counts the steps of the ranks while they run, and reports when the job has become slower. Fed
// with spans in the order of their ends. Bounded memory and time per span; the job does not depend on this
// object, so an error only ends the watch. No clock, no thread rules.
#pragma once

#include "common/base/ids.h"
#include "common/model/timing/span.h"
#include "common/model/timing/speed_report.h"
#include "launcher/speed/inferred_steps.h"
#include "report/speed/changes/change_points.h"
#include "report/speed/clock/step_clock.h"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class StepWatch {
 public:
  // `begin`: when the first slow step began, CLOCK_MONOTONIC; 0: unknown. The step is counted from the first
  // step that was seen; wall_ns is not set. The same for a job that is as fast again as before the reported
  // slowdown.
  using Report = std::function<void(const model::StepChange& change, base::MonoNs begin)>;
  struct RankSteps {
    uint64_t steps = 0;
    double step_s = -1;  // mean of the last steps; negative: not known yet
  };

  // `threshold`: 0.2: report when a step takes 20 % longer than at the fastest level; 0: never.
  // `longer`: the steps take longer by this share, which is not as much.
  StepWatch(double threshold, Report slower, Report as_fast = {},
            std::function<void(double share)> longer = {})
      : threshold_(threshold),
        slower_(std::move(slower)),
        as_fast_(std::move(as_fast)),
        longer_(std::move(longer)) {}

  // `process` distinguishes the successive processes of a rank.
  void add(base::Rank rank, uint64_t process, std::span<const model::Span> spans);
  // The job computes on GPUs; changes are certain sooner then.
  void gpu_used();
  // Timed work of the rank's GPU, which shows how long its steps take.
  void started(base::Rank rank, std::span<const report::GpuStart> starts);

  // From now on, or no longer, each call is timed, which makes the steps longer. These steps are counted but
  // not compared.
  void every_call_timed(bool on, base::MonoNs now);

  RankSteps rank(base::Rank rank) const;
  std::vector<base::Rank> ranks() const;  // of which spans or timed work have come
  // When the latest step of any rank ended; 0: no step was seen. The number of steps of the rank with most
  // steps.
  base::MonoNs last_end() const { return last_end_; }
  uint64_t most_steps() const;
  // Of the slowest rank; negative: no step was seen.
  double step_s() const;
  // Median duration of the latest steps that lie between these times, CLOCK_MONOTONIC, of the first rank with
  // steps; negative: there is none.
  double median_step_s(base::MonoNs from, base::MonoNs until) const;
  bool uses_gpu() const { return gpu_; }
  uint64_t slow_events() const { return reported_; }

 private:
  // The collective that begins the steps of a rank without spans, such as one of JAX.
  struct Anchor {
    uint64_t kind = 0;
    uint64_t number = 0;
    base::MonoNs called = 0;  // 0: none was seen
    uint64_t period = 0;      // collectives in a step: the least distance seen; 0: unknown
  };
  struct State {
    uint64_t process = 0;
    bool spans = false;      // have come
    Anchor anchor;           // as long as there are none
    uint32_t thread = 0;     // that makes the steps; 0: not known yet
    bool marks = false;      // the program marks the ends of its steps
    bool optimizer = false;  // has been seen
    InferredSteps inferred;  // as long as there is neither
    bool guessed = false;    // some of the steps seen were inferred
    bool passes = false;     // forward or backward passes have been seen
    bool worked = false;     // since the last end
    uint64_t optimized = 0;  // calls of optimizers
    uint64_t no_pass = 0;    // of these, since the last pass
    base::MonoNs last_end = 0;
    int64_t aside_ns = 0;  // checkpoints and evaluations since the last end
    report::StepClock clock;
    uint64_t clocked = 0;  // steps whose durations are known
    RankSteps seen;
    std::deque<std::pair<base::MonoNs, int64_t>> latest;  // ends and durations in ns
  };
  // Steps that are compared as one value, because they are very short.
  struct Value {
    uint64_t step = 0;
    base::MonoNs begin = 0;
    uint64_t count = 0;
    int64_t total_ns = 0;
  };

  void take(base::Rank rank, State& state, const model::Span& span);
  void take_anchor(base::Rank rank, State& state, const report::GpuStart& start);
  void certain_from_now(State& state);
  void end_step(base::Rank rank, State& state, base::MonoNs end);
  void take_clocked(base::Rank rank, State& state);
  void compare(base::Rank rank, const State& state, const report::ClockedStep& step);
  void judge(const model::StepChange& change);
  void report(const Report& to, model::StepChange change) const;
  void restart(base::Rank reference);

  double threshold_;
  Report slower_;
  Report as_fast_;
  std::function<void(double share)> longer_;
  bool gpu_ = false;
  base::MonoNs timed_from_ = 0;   // each call was timed from then
  base::MonoNs timed_until_ = 0;  // until then
  bool broken_ = false;
  base::MonoNs last_end_ = 0;
  uint64_t reported_ = 0;
  std::map<base::Rank, State> ranks_;
  // All ranks wait for each other, so a single rank shows the steps of the job.
  base::Rank reference_ = base::kNoRank;
  uint64_t without_reference_ = 0;  // steps of other ranks since its last one
  std::optional<report::ChangeDetector> detector_;
  static constexpr size_t kKept = 512;
  std::array<Value, kKept> values_;  // the latest ones, by their number in the detector
  Value pending_;
  // The level before the job became slower; 0: it is as fast as ever.
  double fastest_s_ = 0;
  double reported_s_ = 0;  // last level that was reported; 0: none
};

}  // namespace xpurun::launcher
