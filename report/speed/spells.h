// Slow steps that are over: the job was faster before and is faster now.
#pragma once

#include "common/model/timing/speed_report.h"
#include "report/speed/ranks/slow_ranks.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace xpurun::report {

struct StepSpell {
  StepWindow steps;
  double before_s = 0;  // of a step
  double during_s = 0;
  std::vector<size_t> ranks;  // that were slow meanwhile
  double lost_s = 0;          // of a step, by these ranks
};

// Between two changes of the job.
std::vector<StepSpell> spells_between(const std::vector<model::StepChange>& changes,
                                      std::span<const double> seconds);

// Of one rank, whose own time over that of the others was higher, as were the steps of the job, which vary
// too much to show a change. At least `least` steps, and as many before and after them.
std::optional<StepSpell> spell_of_rank(const OwnTimes& own, const std::vector<std::string>& hosts,
                                       std::span<const double> seconds, StepWindow window, size_t least);

}  // namespace xpurun::report
