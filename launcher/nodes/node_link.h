// NodeLink: the supervisor's end of the conversation with its helper xpurun-nodes, which does all network
// work. Starts the helper, sends and receives lines over a socket pair, and starts the helper again after a
// growing wait if it dies. Never blocks: what the helper does not read is queued, and a full queue drops the
// oldest states. Event loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/os/wait_status.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/os/event_loop.h"

#include <deque>
#include <functional>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

class NodeLink {
 public:
  struct Parts {
    EventLoop& loop;
    sigset_t signal_mask{};
    int stderr_fd = -1;  // for what the helper complains of; negative: inherited
  };
  struct Hooks {
    std::function<void(base::Pid)> started;
    // The helper runs, again if it has died, and has been sent `start`: the rest is to be told anew.
    std::function<void()> up;
    std::function<void(FromHelper)> received;
    // The helper is gone, and will be started again.
    std::function<void(const std::string& reason)> lost;
  };

  NodeLink(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  ~NodeLink();
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  // Starts the helper at `program` now. Once.
  void start(std::string program, StartMessage message);
  bool running() const { return socket_.valid(); }
  base::Pid pid() const { return pid_; }
  // Without effect while the helper is not running.
  void send(const ToHelper& message);
  uint64_t dropped_states() const { return dropped_states_; }
  // The helper has said that only the user can help: it is not started again.
  void give_up() { given_up_ = true; }
  // For the reaper. Returns whether the pid was the helper's.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

  // The job has ended: last words, then waits for the helper's end, at most this time. Blocks. A helper that
  // stays, because other nodes need the server that it runs, is left behind: it has a time limit of its own.
  // The event loop does not run any more.
  void finish(int exit_status, double seconds);

 private:
  struct Line {
    std::string text;
    bool droppable = false;
  };

  void spawn();
  base::Status spawn_or_fail();
  void disconnect();
  void fail(const std::string& reason);
  void flush();
  void make_room();
  void watch();
  // Whether there may be more to read.
  bool read_some();
  void take_lines();

  Parts parts_;
  Hooks hooks_;
  std::string program_;
  StartMessage start_;
  base::Pid pid_ = 0;
  base::UniqueFd socket_;
  std::string incoming_;
  std::deque<Line> queue_;
  size_t queued_bytes_ = 0;
  size_t sent_of_first_ = 0;
  uint64_t dropped_states_ = 0;
  bool given_up_ = false;
  double wait_s_ = 0;  // before the next start
  base::MonoNs started_ = 0;
  EventLoop::TimerId again_ = 0;
};

}  // namespace xpurun::launcher
