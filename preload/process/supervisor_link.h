// Notices to the supervisor, over one SOCK_SEQPACKET connection each. Everything here is async-signal-safe,
// allocates nothing, never raises SIGPIPE and reports no failure. The caller saves errno.
#pragma once

#include "common/wire/notice.h"

#include <stdint.h>
#include <sys/un.h>

namespace xpurun::preload {

// Sends a notice and closes the connection. Gives up at once if the supervisor's queue is full.
void send_hello(const sockaddr_un& socket, const wire::Notice& notice);

// Sends a notice, then waits for a byte, the end of the connection or the deadline, whichever comes first.
// Returns at once if no process listens.
void send_and_wait(const sockaddr_un& socket, const wire::Notice& notice, uint64_t deadline_ns);

// Sends a notice, then waits until a reply can be read. Returns the connection, which the caller closes, or
// -1.
int request(const sockaddr_un& socket, const wire::Notice& notice, uint64_t deadline_ns);

}  // namespace xpurun::preload
