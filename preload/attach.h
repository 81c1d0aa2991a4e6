// Asks the supervisor for the shared memory of this process. Waits at most 3 s; without a reply there is no
// timing.
#pragma once

#include "common/wire/segment.h"

#include <sys/un.h>

namespace xpurun::preload {

// nullptr if there is no supervisor, its version differs, or it refuses.
wire::Segment* attach_segment(const sockaddr_un& socket);

}  // namespace xpurun::preload
