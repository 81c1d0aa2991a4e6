// RelayProcess: what the relay does (--logs): gives ranks pipes, reads them, keeps what arrives in files and
// repeats it on our streams. It is a process in a session of its own, so that ranks can go on writing when
// the supervisor has been killed, and it ends when the supervisor and all writers have gone. It never waits
// for a disk or for our streams itself: sinks do.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/relay/repeater.h"

#include <string>

namespace xpurun::launcher {

// What the supervisor sends, and gets back once everything written before has been repeated.
inline constexpr char kRelayFinish = 'f';
inline constexpr char kRelayFinished = 'd';

struct RelaySetup {
  base::UniqueFd listener;  // abstract socket on which ranks ask (common/wire/logs.h)
  base::UniqueFd channel;   // to the supervisor; its end means that the supervisor has died
  std::string directory;    // <run>/ranks, absolute
  LinePrefix prefix = LinePrefix::none;
};

// In the child after fork: never returns.
[[noreturn]] void run_relay(RelaySetup setup);

}  // namespace xpurun::launcher
