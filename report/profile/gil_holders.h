// Threads that held Python's GIL while the main threads of the ranks were sampled. Pure.
#pragma once

#include "common/model/speed/capture_report.h"
#include "report/profile/profile.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Moves the tracks of such threads out of the profile: the others are then main threads. The largest share
// comes first; threads with less than a hundredth of the time are left out.
std::vector<model::GilHolder> take_gil_holders(Profile& profile);

// The thread of one of `ranks`, or of any rank if these are empty, that held the GIL far longer than threads
// of all other ranks; nullptr if none.
const model::GilHolder* blamed_holder(const model::CaptureReport& capture, const model::RankSet& ranks);
// "the thread StatsThread of rank 1 held Python's GIL for 71 % of the time, in StatsThread.aggregate
// (train.py:12)"
std::string holder_words(const model::GilHolder& holder);
// "StatsThread.aggregate (train.py:12)"
std::string place_of(const model::GilHolder& holder);

}  // namespace xpurun::report
