// The slowdowns of a run, which were reported while the job ran (run.json), for the page: a table of the
// section "Speed", sentences for the time line of the run. How they lie in the plot of the steps:
// speed_svg.h.
#pragma once

#include "report/render/parts/page_parts.h"

#include <string>

namespace xpurun::report {

void put_slowdowns(PageData& page, const model::RunManifest& run);

// "the job is 23 % slower since step 4,120 (14:03:07 UTC), 210 ms instead of 171 ms a step; as fast as before
// since step 5,000"
std::string slowdown_sentence(const model::Slowdown& slowdown);
// When the first slow step began, in seconds since the run began; when the slowdown was certain, if that is
// not known.
double slow_since_s(const model::Slowdown& slowdown, const model::RunManifest& run);

}  // namespace xpurun::report
