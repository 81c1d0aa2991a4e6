// Asks the supervisor for the shared memory of this process. Waits 3 s at most; without an answer there is no
// timing.
#pragma once

#include "common/wire/segment.h"

#include <sys/un.h>

namespace xpurun::preload {

// nullptr if there is no supervisor, or it is of another version, or refuses.
wire::Segment* attach_segment(const sockaddr_un& socket);

}  // namespace xpurun::preload
