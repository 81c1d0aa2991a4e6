// The way to the supervisor: one SOCK_SEQPACKET connection a notice. Everything here is async-signal-safe,
// allocates nothing, never raises SIGPIPE and is silent about failure; errno is the caller's to save.
#pragma once

#include "common/wire/notice.h"

#include <stdint.h>
#include <sys/un.h>

namespace xpurun::preload {

uint64_t monotonic_ns();

// Sleeps until the deadline. Signals do not shorten it.
void sleep_until(uint64_t deadline_ns);

// Delivers and hangs up. Gives up at once where the supervisor's queue is full.
void send_hello(const sockaddr_un& socket, const wire::Notice& notice);

// Delivers, then waits for a byte, the end of the connection or the deadline, whichever comes first.
// Returns at once if nobody listens.
void send_and_wait(const sockaddr_un& socket, const wire::Notice& notice, uint64_t deadline_ns);

// Delivers, then waits until there is an answer to read. The connection, which the caller closes, or -1.
int request(const sockaddr_un& socket, const wire::Notice& notice, uint64_t deadline_ns);

}  // namespace xpurun::preload
