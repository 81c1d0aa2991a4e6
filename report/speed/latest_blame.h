// The ranks that are slow at the end of the run, and since when.
#pragma once

#include "report/speed/changes/change_points.h"
#include "report/speed/levels.h"
#include "report/speed/ranks/slow_ranks.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// What ranks are compared by. `level`: own times as if the stages of a pipeline were alike.
struct Compared {
  const OwnTimes& own;
  const OwnTimes& level;
  const std::vector<std::string>& hosts;
  const std::vector<model::StepChange>& changes;
  size_t least_after;  // steps that a rise has to last
};

struct LatestBlame {
  Blame blame;
  StepWindow window;  // in which they are slow
  // The means of the whole window and of its end do not show them.
  bool risen_only = false;
  int64_t since = -1;  // they became slow in it; negative: not, or not known
};

std::optional<LatestBlame> latest_blame(const Compared& by, StepWindow window);

// The ranks that were slow before the job changed. Other programs on the CPUs of a machine slow all ranks and
// hide them since then, so they count as slow until the steps show that they have recovered. `window` is that
// of the steps that show them, and `since` is right there.
std::optional<LatestBlame> blame_before_change(const Compared& by, size_t steps);

// Since when ranks are slow that did not become slow within the window: the change of the job that they
// caused, or a step before the window. Negative: from the beginning.
int64_t onset_of(const Compared& by, StepWindow window, const Blame& blame,
                 const std::optional<Slowdown>& slow);

}  // namespace xpurun::report
