// How ranks learn where to write their output (xpurun run --logs). Freestanding: shared by preload/ and
// launcher/.
#pragma once

namespace xpurun::wire {

// "<dev>:<ino>:<dev>:<ino>:<directory>": device and inode, decimal, of the standard output and standard error
// that xpurun was started with, and the absolute directory below which rank N writes N/stdout.log and
// N/stderr.log. A stream that was redirected meanwhile is a different file and is left alone.
inline constexpr char kLogsEnv[] = "XPURUN_RUN_LOGS";
inline constexpr char kStdoutLog[] = "stdout.log";
inline constexpr char kStderrLog[] = "stderr.log";

}  // namespace xpurun::wire
