// How ranks are given pipes for their output (xpurun run --logs). A rank asks the relay (launcher/relay), a
// process beside the supervisor that outlives it, and gets the write end of a pipe. No rank ever touches the
// run directory: a full disk or one that does not answer is the relay's business.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stdint.h>

namespace xpurun::wire {

// "<dev>:<ino>:<dev>:<ino>:<name>": device and inode, decimal, of the standard output and standard error that
// xpurun was started with, and the name of the relay's socket (AF_UNIX, SOCK_SEQPACKET, abstract, so that no
// file system is asked). A stream that somebody has redirected already is not the same file any more and left
// alone.
inline constexpr char kLogsEnv[] = "XPURUN_RUN_LOGS";

enum class LogStream : uint16_t { out = 1, err = 2 };

inline constexpr uint32_t kLogRequestMagic = 0x4c525058;  // "XPRL"
inline constexpr uint16_t kLogRequestVersion = 1;

// The answer is one byte with the write end of a pipe, or the end of the connection.
struct LogRequest {
  uint32_t magic;
  uint16_t version;
  uint16_t stream;  // LogStream
  uint32_t rank;
  uint32_t reserved;
};
static_assert(sizeof(LogRequest) == 16, "wire layout");

// In <run>/ranks/<rank>.
inline constexpr char kStdoutLog[] = "stdout.log";
inline constexpr char kStderrLog[] = "stderr.log";

}  // namespace xpurun::wire
