// How ranks get pipes for their output (xpurun run --logs). A rank asks the relay (launcher/relay), a process
// beside the supervisor that outlives it, and receives the write end of a pipe. Ranks never touch the run
// directory, so a full disk or a hung file system affects only the relay.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stdint.h>

namespace xpurun::wire {

// "<dev>:<ino>:<dev>:<ino>:<name>": device and inode, decimal, of xpurun's own standard output and standard
// error, and the name of the relay's socket (AF_UNIX, SOCK_SEQPACKET, abstract, so that no file system is
// involved). A stream that was redirected before is a different file and is left alone.
inline constexpr char kLogsEnv[] = "XPURUN_RUN_LOGS";

enum class LogStream : uint16_t { out = 1, err = 2 };

inline constexpr uint32_t kLogRequestMagic = 0x4c525058;  // "XPRL"
inline constexpr uint16_t kLogRequestVersion = 1;

// The reply is one byte with the write end of a pipe, or a closed connection.
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
