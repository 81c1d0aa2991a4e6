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
    // The helper runs, again if it has died, and has been sent `start`: the rest is to be told anew.
    std::function<void()> up;
    std::function<void(FromHelper)> received;
    // The helper is gone, and will be started again.
    std::function<void(const std::string& reason)> lost;
  };

  virtual ~NodeChannel() = default;

  // Starts the helper at `program` now. Once.
  virtual void start(std::string program, StartMessage message) = 0;
  virtual bool running() const = 0;
  virtual base::Pid pid() const = 0;
  // Without effect while the helper is not running.
  virtual void send(const ToHelper& message) = 0;
  // The helper has said that only the user can help: it is not started again.
  virtual void give_up() = 0;
  // For the reaper. Returns whether the pid was the helper's.
  virtual bool helper_ended(base::Pid pid, base::WaitStatus status) = 0;
  // The job has ended: last words, then waits for the helper's end, at most this time. Blocks. A helper that
  // stays, because other nodes need the server that it runs, is left behind: it has a time limit of its own.
  // The event loop does not run any more.
  virtual void finish(int exit_status, double seconds) = 0;
};

}  // namespace xpurun::launcher
