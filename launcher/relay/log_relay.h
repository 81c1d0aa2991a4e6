// LogRelay: the supervisor's side of the relay (relay_process.h, relay_keeper.h): starts the relay and lets
// it finish.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/os/wait_status.h"
#include "common/base/result.h"
#include "launcher/os/event_loop.h"
#include "launcher/relay/relay_memory.h"
#include "launcher/relay/repeater.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace xpurun::launcher {

class LogRelay {
 public:
  // `started` gets the pid of each process that relays, also of those that replace a killed one.
  LogRelay(EventLoop& loop, std::function<void(base::Pid)> started)
      : loop_(loop), started_(std::move(started)) {}
  ~LogRelay();
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  // `directory` is <run>/ranks, absolute; it need not exist. Returns the value of wire::kLogsEnv for xpurun's
  // standard streams.
  base::Result<std::string> start(const std::string& directory, LinePrefix prefix);
  // Of the keeper (relay_keeper.h).
  base::Pid pid() const { return pid_; }
  // True if it was the keeper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

  // Calls `done` later, when all output of the ranks so far has been repeated, or after give_up().
  void finish(std::function<void()> done);
  void give_up() { finished(); }

 private:
  void hear();
  void finished();

  EventLoop& loop_;
  std::function<void(base::Pid)> started_;
  std::optional<RelayMemory> memory_;
  base::Pid pid_ = 0;
  base::UniqueFd channel_;
  std::function<void()> done_;
};

}  // namespace xpurun::launcher
