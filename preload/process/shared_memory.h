// Asks the supervisor for memory to share. Waits at most 3 s.
#pragma once

#include "common/wire/notice.h"

#include <stddef.h>
#include <sys/un.h>

namespace xpurun::preload {

// The mapping of the descriptor in the reply to the notice; nullptr if there is no supervisor, it refuses, or
// the memory does not have `bytes` bytes. The caller unmaps it.
void* request_memory(const sockaddr_un& socket, const wire::Notice& notice, size_t bytes);

}  // namespace xpurun::preload
