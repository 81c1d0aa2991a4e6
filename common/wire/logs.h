// How ranks are told to write their output to files of the run directory (xpurun run --logs). Files, not
// pipes: a rank must be able to go on writing when the supervisor is gone.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

namespace xpurun::wire {

// "<dev>:<ino>:<dev>:<ino>:<directory>": device and inode, decimal, of the standard output and standard error
// that xpurun was started with, and the absolute directory below which rank N writes N/stdout.log and
// N/stderr.log. A stream that somebody has redirected already is not the same file any more and left alone.
inline constexpr char kLogsEnv[] = "XPURUN_RUN_LOGS";
inline constexpr char kStdoutLog[] = "stdout.log";
inline constexpr char kStderrLog[] = "stderr.log";

}  // namespace xpurun::wire
