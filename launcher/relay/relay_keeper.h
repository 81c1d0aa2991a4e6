// The keeper of the relay: without a reader of their pipes, ranks die of SIGPIPE or get EPIPE. The keeper has
// the relay's descriptors open and replaces a relay that was killed (for example by the OOM killer); its
// deputy has them open too and replaces a keeper that was killed. The three share one table of descriptors.
#pragma once

#include "launcher/relay/relay_process.h"

namespace xpurun::launcher {

// In the child after fork: never returns. `memory` is shared with the supervisor.
[[noreturn]] void keep_relay(RelaySetup setup, RelayMemory& memory);

}  // namespace xpurun::launcher
