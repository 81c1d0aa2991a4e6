// How long ranks that do not work at all may stand still, none waiting for another, until that is a hang.
#pragma once

namespace xpurun::report {

// In hang timeouts. --busy-timeouts is the same for ranks that work.
inline constexpr int kStillTimeouts = 3;

}  // namespace xpurun::report
