// LogRelay: the supervisor's side of the relay (relay_process.h): starts the relay and lets it finish.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/os/wait_status.h"
#include "common/base/result.h"
#include "launcher/os/event_loop.h"
#include "launcher/relay/repeater.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class LogRelay {
 public:
  explicit LogRelay(EventLoop& loop) : loop_(loop) {}
  ~LogRelay();
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  // `directory` is <run>/ranks, absolute; it need not exist. Returns the value of wire::kLogsEnv for xpurun's
  // standard streams.
  base::Result<std::string> start(const std::string& directory, LinePrefix prefix);
  base::Pid pid() const { return pid_; }
  // True if it was the relay.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

  // Calls `done` later, when all output of the ranks so far has been repeated, or after give_up().
  void finish(std::function<void()> done);
  void give_up() { finished(); }

 private:
  void hear();
  void finished();

  EventLoop& loop_;
  base::Pid pid_ = 0;
  base::UniqueFd channel_;
  std::function<void()> done_;
};

}  // namespace xpurun::launcher
