// The text of the status line. Pure.
#pragma once

#include "common/base/language.h"
#include "launcher/output/live_status.h"

#include <string>

namespace xpurun::launcher {

// Whether a living rank has been still for some time.
bool has_quiet_rank(const LiveStatus& s);

// Seconds since the begin of the open stall, even if a rank makes progress, because a culprit may move in
// circles. Without an open stall: the time for which all living ranks have been still; 0 if a rank made
// progress lately, or if there are no ranks.
double stalled_s(const LiveStatus& s);

// At most `columns` wide. While the job makes progress: how many ranks do not. In a stall: for how long.
// Culprits are named if they are known; a rank that only waits is not named.
std::string status_line_text(const LiveStatus& s, size_t columns,
                             base::Language language = base::Language::english);

}  // namespace xpurun::launcher
