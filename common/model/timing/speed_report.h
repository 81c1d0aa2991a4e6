// SpeedReport: the result of an analysis of the steps of a run: their duration, since when they are slower,
// which ranks cost the others time, and why. The section "speed" of report.json and the output of `xpurun
// analyze --format json`, schema "xpurun.speed/1". Times are seconds unless a name says otherwise.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "common/model/speed/capture_report.h"
#include "common/model/speed/operations.h"
#include "common/model/speed/rank_launches.h"
#include "common/model/speed/stage_pause.h"
#include "common/model/timing/span.h"
#include "common/model/verdict.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kSpeedSchema = "xpurun.speed/1";

// The stages that a step is divided into: all of Stage before `function`.
inline constexpr size_t kStepStages = 9;
static_assert(static_cast<size_t>(Stage::function) == kStepStages);

// The sign by which steps were distinguished.
enum class StepSource {
  none,         // no stable step
  mark,         // the program marked them
  optimizer,    // ends of optimizer spans
  data,         // waits for the next batch
  collectives,  // the sequence of collectives repeats itself
  replays,      // of a CUDA graph
};
template <>
inline constexpr std::array<std::string_view, 6> kNames<StepSource> = {"none", "mark",        "optimizer",
                                                                       "data", "collectives", "replays"};

// What the durations of the steps were taken from.
enum class ClockSource {
  none,
  host,     // the host's clock: it waits in each step, or there is no GPU
  windows,  // means between two moments at which the host waited for the GPU
  gpu,      // the begin of each step's first work on the GPU
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<ClockSource> = {"none", "host", "windows", "gpu"};

enum class ChangeKind { level_shift, ramp };
template <>
inline constexpr std::array<std::string_view, 2> kNames<ChangeKind> = {"level_shift", "ramp"};

enum class SpeedProblem {
  slow_rank,  // one rank, or the ranks of one host, keep the others waiting
  slower,     // the job is slower than before
  cause,      // a cause costs time, but no rank stands out
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<SpeedProblem> = {"slow_rank", "slower", "cause"};

enum class SpeedSeverity { note, warning };
template <>
inline constexpr std::array<std::string_view, 2> kNames<SpeedSeverity> = {"note", "warning"};

// Mean seconds of a step, by Stage.
struct StageSeconds {
  std::array<double, kStepStages> seconds{};

  double& operator[](Stage stage) { return seconds[static_cast<size_t>(stage)]; }
  double operator[](Stage stage) const { return seconds[static_cast<size_t>(stage)]; }
};

// Since a step, the job needs another time for a step.
struct StepChange {
  ChangeKind kind = ChangeKind::level_shift;
  int64_t step = 0;        // the first changed step
  int64_t found_step = 0;  // the step at which the change became certain
  int64_t wall_ns = 0;     // begin of `step`; 0: unknown
  double before_s = 0;     // median
  double after_s = 0;      // median
  double share = 0;        // 0.23: 23 % slower; negative: faster
};

struct RankSpeed {
  base::Rank rank = base::kNoRank;
  std::string host;
  std::string gpu;
  int64_t steps = 0;
  double step_s = 0;  // median duration
  double own_s = 0;   // mean time of a step in which the rank did not wait for others; negative: not known
  double wait_s = 0;  // mean time of a step in which it did; negative: not known
  double lead_s =
      -1;  // median: so far is the host ahead of the GPU; about 0: the GPU waits for it; negative: not known
  // Mean communication of a step that computing does not hide (with waits), and that it hides; negative:
  // unknown.
  double exposed_s = -1;
  double hidden_s = -1;
  double cpu_s = -1;        // mean CPU time of a step, all threads; negative: unknown
  double run_delay_s = -1;  // mean time of a step in which threads were ready and had no CPU
  double throttled_s = -1;  // likewise, in which the CPU limit of its control groups kept it from running
  double stolen_s = -1;     // likewise, which the hypervisor took from a running thread
  double faults = 0;        // major page faults of a step
  StageSeconds stages;      // mean, of the main thread, without nested spans
  // Since this step its own time is longer than that of the other ranks by another share than before, until
  // the end; negative: no such step.
  int64_t since = -1;
  int64_t since_wall_ns = 0;
  double risen = 0;  // 0.2: since then 20 % longer, compared with the other ranks
};

struct SpeedFinding {
  SpeedProblem problem = SpeedProblem::slow_rank;
  SpeedSeverity severity = SpeedSeverity::warning;
  SlowCause cause = SlowCause::unknown;
  Confidence confidence = Confidence::none;
  RankSet ranks;         // empty: all ranks
  std::string place;     // "train.py:40 (collate)"; empty: unknown
  std::string function;  // from a capture: where the ranks spend more time than the others; empty: unknown
  CodeLocation where;    // of `function`; not in the file
  int64_t since = -1;    // step; negative: from the beginning
  int64_t since_wall_ns = 0;  // begin of that step
  int64_t until = -1;         // the first step after it; negative: it lasts
  int64_t until_wall_ns = 0;
  int64_t period = 0;  // one slow step in so many; 0: all steps
  double lost_s = 0;   // of a usual step: share times step_s of the report
  double share = 0;    // of a step: what would be won without these ranks or this cause
  std::string sentence;
  std::string next;
  std::string spoken;  // the sentence in the language of the page; not in the file
};

// A step without this cause.
struct CauseShare {
  SlowCause cause = SlowCause::unknown;
  double share = 0;  // of a step that would be won
};

// The calls of a traced function on one rank.
struct FunctionOfRank {
  base::Rank rank = base::kNoRank;
  int64_t calls = 0;
  int64_t short_calls = 0;  // of these; only their sum is known
  double total_s = 0;
  double self_s = 0;  // outside of the spans inside of the calls
  double mean_s = 0;
  double p99_s = -1;  // negative: a short call
  double longest_s = 0;
};

struct FunctionTimes {
  std::string name;  // "train:collate"
  int64_t calls = 0;
  double total_s = 0;
  double self_s = 0;
  double mean_s = 0;
  double p99_s = -1;  // of the rank where it is longest
  base::Rank slowest = base::kNoRank;
  double slowest_mean_s = 0;
  double others_mean_s = 0;  // median of the other ranks' means
  RankSet outliers;          // whose mean is far above the others'
  std::vector<FunctionOfRank> ranks;
};

// Several consecutive steps of the job.
struct StepBin {
  int64_t first = 0;
  int64_t count = 0;
  int64_t wall_ns = 0;  // begin of the first; 0: unknown
  double median_s = 0;
  double most_s = 0;
  // Means over the ranks and steps of which the communication is known; negative: of none.
  double exposed_s = -1;
  double hidden_s = -1;
};

// Own times of several ranks over the steps.
struct HeatMap {
  std::vector<RankSet> rows;
  size_t columns = 0;
  int64_t first_step = 0;
  int64_t steps = 0;
  // By row, then column: mean own time of a step in seconds; negative: no data.
  std::vector<float> own_s;
  bool empty() const { return own_s.empty(); }
};

struct SpeedReport {
  StepSource source = StepSource::none;
  ClockSource clock = ClockSource::none;
  double clock_steps = 0;  // the mean number of steps that share one measured length
  Confidence confidence = Confidence::none;
  std::string why;  // why there are no steps, or the confidence is not high
  int64_t steps = 0;
  int64_t first_wall_ns = 0;  // begin of the first step
  int64_t last_wall_ns = 0;   // end of the last step
  double step_s = 0;          // median of the steps since the latest change of the job or of slow ranks
  int64_t spikes = 0;
  int64_t pauses = 0;
  bool waits_measured = false;         // from collectives; else inferred from stages and CPU time
  std::string sentence;                // the summary; names no problem if there is none
  std::vector<SpeedFinding> findings;  // most important first
  std::vector<StepChange> changes;
  std::vector<CauseShare> what_if;
  std::vector<StagePause> stage_pauses;  // checkpoints and evaluations
  std::vector<RankLaunches> launches;    // of the ranks of which they were measured
  std::vector<CaptureReport> captures;   // in the order of time
  std::vector<RankSpeed> ranks;
  std::vector<StepBin> series;
  std::vector<FunctionTimes> functions;  // that --trace-python named; the longest total first
  HeatMap heat;
  OperationTables operations;
};

nlohmann::ordered_json to_json(const SpeedReport& report);

}  // namespace xpurun::model
