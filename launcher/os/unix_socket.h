// Unix-domain sockets in the file system, private to the user.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <string>

namespace xpurun::launcher {

// sun_path holds 107 bytes and a terminator.
inline constexpr size_t kMaxSocketPath = 107;

// Non-blocking listener, mode 0600. `type` is SOCK_STREAM or SOCK_SEQPACKET.
base::Result<base::UniqueFd> listen_unix(const std::string& path, int type);

}  // namespace xpurun::launcher
