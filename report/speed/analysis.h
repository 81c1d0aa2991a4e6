// "It is slow: which rank, since when, and why": the spans and timed calls of all ranks become a
// model::SpeedReport. Pure; ranks are added one after the other, so that the files of one rank only are in
// memory.
#pragma once

#include "common/base/language.h"
#include "report/events/rank_record.h"
#include "report/speed/changes/change_points.h"
#include "report/speed/functions/function_times.h"
#include "report/speed/ranks/job_steps.h"
#include "report/speed/step_table.h"

#include <vector>

namespace xpurun::report {

struct SpeedSettings {
  ChangeSettings on_gpus;
  ChangeSettings on_cpus = ChangeSettings::for_shared_cpus();
  base::Language language = base::Language::english;  // of SpeedFinding::spoken
  size_t most_arrivals = size_t{16} << 20;            // at collectives, of all ranks together
};

class SpeedAnalysis {
 public:
  // `expected_ranks` divides the memory for arrivals.
  explicit SpeedAnalysis(size_t expected_ranks, SpeedSettings settings = {});

  // Files of the same rank belong into one call.
  void add(const RankRecord& rank);
  // Once. `table` may be null.
  model::SpeedReport finish(StepTable* table = nullptr);

 private:
  size_t most_arrivals_;
  SpeedSettings settings_;
  std::vector<RankSteps> ranks_;
  std::vector<RankFunctions> functions_;
};

model::SpeedReport analyse_speed(const std::vector<RankRecord>& ranks, SpeedSettings settings = {});

}  // namespace xpurun::report
