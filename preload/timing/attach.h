// Asks the supervisor for the shared memory of this process. Waits a bounded time; silence means no timing.
#pragma once

#include "common/wire/segment.h"

#include <sys/un.h>

namespace xpurun::preload {

// nullptr if there is no supervisor, it is of another version, or it is not interested.
wire::Segment* attach_segment(const sockaddr_un& socket);

}  // namespace xpurun::preload
