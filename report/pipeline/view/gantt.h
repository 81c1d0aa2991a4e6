// A pipeline as a picture: stages over time, a box for each job. SVG that needs no script.
#pragma once

#include "common/model/speed/pipeline.h"

#include <cstddef>
#include <string>

namespace xpurun::report {

// Where the picture stands.
enum class GanttUse {
  file,  // alone, with its own colours for light and dark
  page,  // inside of the report page, whose style sheet has the colours
};

struct GanttLimits {
  size_t stages = 64;    // rows
  size_t titles = 1500;  // jobs with a text for the mouse, if there are no more
};

// Steps by index, both included.
struct StepRange {
  size_t first = 0;
  size_t last = 0;
};
// The last two complete steps that follow each other, or the last one; all steps if none is complete.
StepRange shown_steps(const model::Pipeline& pipeline);

// Empty if no stage has a job in these steps.
std::string gantt_svg(const model::Pipeline& pipeline, const StepRange& steps, GanttUse use,
                      const GanttLimits& limits = {});

}  // namespace xpurun::report
