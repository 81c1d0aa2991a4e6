// NodeChannel: one end of the conversation with the helper xpurun-nodes, as its users see it. NodeLink is the
// real one. Event loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"
#include "launcher/nodes/node_messages.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class NodeChannel {
 public:
  struct Hooks {
    std::function<void(base::Pid)> started;
    // The helper runs (again, if it had died) and has got `start`. All other state must be sent again.
    std::function<void()> up;
    std::function<void(FromHelper)> received;
    // The helper has ended and will be restarted.
    std::function<void(const std::string& reason)> lost;
  };

  virtual ~NodeChannel() = default;

  // Starts the helper at `program` now. Once.
  virtual void start(std::string program, StartMessage message) = 0;
  virtual bool running() const = 0;
  virtual base::Pid pid() const = 0;
  // Without effect while the helper is not running.
  virtual void send(const ToHelper& message) = 0;
  // The helper reported an error that only the user can correct: it is not restarted.
  virtual void give_up() = 0;
  // For the reaper. Returns whether the pid was the helper's.
  virtual bool helper_ended(base::Pid pid, base::WaitStatus status) = 0;
  // The job has ended: sends the last message, then waits for the helper's end, at most this time. Blocks. A
  // helper that stays, because other nodes need the server that it runs, is left behind: it has its own time
  // limit. The event loop no longer runs.
  virtual void finish(int exit_status, double seconds) = 0;
};

}  // namespace xpurun::launcher
