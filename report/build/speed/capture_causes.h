// What captures and traces add to the findings of an analysis: the function in which the blamed ranks spend
// more time, GPUs whose clocks are lowered, and GPUs that had less to do than others. Captures from before a
// change say nothing of it. Pure.
#pragma once

#include "common/base/language.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/speed_report.h"
#include "report/speed/wording.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace xpurun::report {

// The clocks of the ranks' GPUs between two moments, as far as they were watched.
using WatchedClocks = std::function<model::GpuCapture(int64_t from_wall_ns, int64_t until_wall_ns)>;

// `language` is that of SpeedFinding::spoken. `watched` may be empty. The next steps are such that can be
// done in this state of the job.
void name_from_captures(model::SpeedReport& report, base::Language language,
                        const WatchedClocks& watched = {}, JobState state = JobState::runs);

// Where no steps are known, a rank for which the others waited until the end, and that a capture sees do
// something longer than the others, is a finding. Before name_from_captures().
void add_awaited_ranks(model::SpeedReport& report, const std::vector<model::AwaitedRank>& late,
                       base::Language language);

}  // namespace xpurun::report
