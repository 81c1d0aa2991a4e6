// Plain names for the numbers that must not be mixed up.
#pragma once

#include <cstdint>

namespace xpurun::base {

using Pid = int32_t;   // thread-group id as seen from our PID namespace
using Tid = int32_t;   // thread id as seen from our PID namespace
using Rank = int32_t;  // global rank; kNoRank for a process that is none
inline constexpr Rank kNoRank = -1;

}  // namespace xpurun::base
