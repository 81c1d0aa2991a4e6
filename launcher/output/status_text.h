// The text of the status line. Pure.
#pragma once

#include "common/base/language.h"
#include "launcher/output/live_status.h"

#include <string>

namespace xpurun::launcher {

// Seconds for which all living ranks have stood still; 0 if a rank has moved lately, or if there is no rank.
double stalled_s(const LiveStatus& s);

// At most `columns` wide. While the job moves: which rank moved last. In a stall: for how long, and the ranks
// that all others wait for, if they are known; a rank that only waits is not named.
std::string status_line_text(const LiveStatus& s, size_t columns,
                             base::Language language = base::Language::english);

}  // namespace xpurun::launcher
