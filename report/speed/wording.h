// Sentences about speed, for people.
#pragma once

#include "report/speed/patterns.h"
#include "report/speed/ranks/causes.h"

#include <string>

namespace xpurun::report {

struct SlowRankWords {
  Cause cause;
  int64_t shown_until =
      -1;                  // the later steps do not show it: other programs slow all ranks; negative: they do
  bool only_part = false;  // the cause explains most of the time, not all of it
  std::string host;
  std::string gpu;
  bool whole_host = false;
  std::string others_wait_in;  // "all_reduce"; empty: unknown
};

// What the comparison of the ranks gave.
enum class RanksCompared { one_rank, none_slow, some_slow, not_compared };

// "rank 3 (host b, GPU 5) costs 18 % of every step (210 ms) since step 4,120 (14:03:07 UTC): it waits longer
// for the next batch (data.py:40); the others wait in all_reduce"
std::string slow_rank_sentence(const model::SpeedFinding& finding, const SlowRankWords& words);
// "the job is 23 % slower since step 4,120 (14:03:07 UTC), 210 ms instead of 171 ms: ..."
std::string slower_sentence(const model::SpeedFinding& finding, const model::StepChange& change,
                            const Cause& cause, RanksCompared compared);
struct SpellWords {
  double before_s = 0;  // of a step
  double during_s = 0;
  Cause cause;
  RanksCompared compared = RanksCompared::not_compared;
};

// "the job was 98 % slower from step 150 to step 210 (14:03:07 UTC to 14:03:11 UTC): 60 ms instead of 30 ms
// per step, 1.80 s in all: rank 1 was slow: it needed longer in the forward pass (model.py:30 (forward))"
std::string spell_sentence(const model::SpeedFinding& finding, const SpellWords& words);
// "rank 0 is slow in every 10th step: 140 ms instead of 22 ms"
std::string pattern_sentence(const model::SpeedFinding& finding, const StepPattern& pattern);
std::string cause_sentence(const model::SpeedFinding& finding, RanksCompared compared);
// "the container's CPU limit throttles all ranks 31 % of the time (40 ms of a step)"
std::string lost_cpu_sentence(const model::SpeedFinding& finding, const Cause& cause);
// "checkpoint of 12.0 s every 500 steps (torch.save at train.py:30), 2 % of the time"
std::string pause_sentence(const model::StagePause& pause);
// "rank 3 needs 12.0 s for a checkpoint, the others 3.00 s (train.py:30 (save))"
std::string slow_pause_sentence(const model::StagePause& pause);
// "no work ran on its GPU 41 % of the time, on the others 12 % (traces/2)"
std::string void_words(const model::RankSet& ranks, double share, double others, const std::string& dir);
// "a step takes 17 % less without Python's garbage collection"
std::string what_if_words(const model::CauseShare& cause);
// What can still be done depends on whether the job runs.
enum class JobState { runs, ended };
std::string next_step(const model::SpeedFinding& finding, JobState state = JobState::runs);
// One sentence about the run.
std::string summary_sentence(const model::SpeedReport& report);

// "all_reduce (train.py:40 (main))"; without a place: the call alone
std::string call_words(const std::string& call, const std::string& place);

// ", by the GPU's clock"; empty: by the host's
std::string clock_words(const model::SpeedReport& report);

// "14:03:07 UTC"
std::string time_of_day(int64_t wall_ns);
// "210 ms", "1.25 s", "0"
std::string short_seconds(double seconds);
// As short_seconds(), with more digits below a millisecond: "12.3 us"
std::string brief_seconds(double seconds);
// "4,120"
std::string grouped(int64_t number);
// "18 %"
std::string percent(double share);
// "rank 2 keeps the others waiting for 39 % of the time": no steps are known.
std::string late_words(const model::RankSet& ranks, double share);

}  // namespace xpurun::report
