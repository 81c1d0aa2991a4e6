// Unix-domain sockets in the file system, private to the user.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <optional>
#include <string>
#include <sys/types.h>

namespace xpurun::launcher {

// sun_path holds 107 bytes and a terminator.
inline constexpr size_t kMaxSocketPath = 107;

// Non-blocking listener, mode 0600. `type` is SOCK_STREAM or SOCK_SEQPACKET.
base::Result<base::UniqueFd> listen_unix(const std::string& path, int type);

// The process at the other end at the time of its connect(2); nullopt if the kernel does not report it.
struct Peer {
  base::Pid pid = 0;
  uid_t uid = 0;
};
std::optional<Peer> peer_of(int connection);

// Sends one byte together with the descriptor. Does not wait; false if it was not sent.
bool send_descriptor(int connection, int descriptor, char byte);

}  // namespace xpurun::launcher
