// Names for numbers that must not be confused.
#pragma once

#include <cstdint>

namespace xpurun::base {

using Pid = int32_t;   // thread-group id in xpurun's PID namespace
using Tid = int32_t;   // thread id in xpurun's PID namespace
using Rank = int32_t;  // global rank; kNoRank for a process without a rank
inline constexpr Rank kNoRank = -1;
// Higher ranks come from damaged files only.
inline constexpr Rank kHighestRank = 1 << 24;

}  // namespace xpurun::base
