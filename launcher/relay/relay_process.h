// RelayProcess: the relay (--logs). It gives pipes to ranks, reads the pipes, writes the output to files and
// repeats it on xpurun's streams. The relay is a process in its own session, so that ranks can write after
// the supervisor was killed; it ends when the supervisor and all writers have ended. It never waits for a
// disk or an output stream itself: its sinks do.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/relay/relay_memory.h"
#include "launcher/relay/repeater.h"

#include <string>

namespace xpurun::launcher {

// Request of the supervisor; sent back once all output from before the request has been repeated.
inline constexpr char kRelayFinish = 'f';
inline constexpr char kRelayFinished = 'd';

struct RelaySetup {
  base::UniqueFd listener;  // abstract socket on which ranks ask (common/wire/logs.h)
  base::UniqueFd channel;   // to the supervisor; its end means that the supervisor has died
  std::string directory;    // <run>/ranks, absolute
  LinePrefix prefix = LinePrefix::none;
};

// Relays until the supervisor and all writers have ended. With the memory of a relay that was killed, goes on
// where that relay was.
[[noreturn]] void relay_output(RelaySetup setup, RelayMemory& memory);

}  // namespace xpurun::launcher
