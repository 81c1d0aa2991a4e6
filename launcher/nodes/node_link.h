// NodeLink: the supervisor's end of the conversation with its helper xpurun-nodes, which does all network
// work. Starts the helper, sends and receives lines over a socket pair, and starts the helper again after a
// growing wait if it dies. Never blocks: what the helper does not read is queued, and a full queue drops the
// oldest states. Event loop's thread only.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/nodes/node_channel.h"
#include "launcher/os/timer.h"

#include <deque>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

class NodeLink final : public NodeChannel {
 public:
  struct Parts {
    EventLoop& loop;
    sigset_t signal_mask{};
    int stderr_fd = -1;  // standard error of the helper; negative: inherited
  };
  NodeLink(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  ~NodeLink() override;
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  void start(std::string program, StartMessage message) override;
  bool running() const override { return socket_.valid(); }
  base::Pid pid() const override { return pid_; }
  void send(const ToHelper& message) override;
  uint64_t dropped_states() const { return dropped_states_; }
  void give_up() override { given_up_ = true; }
  bool helper_ended(base::Pid pid, base::WaitStatus status) override;
  void finish(int exit_status, double seconds) override;

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
  // The list of a thousand nodes comes in a hundred parts: each byte is looked at once.
  void take_lines(size_t unsearched);

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
  Timer again_{parts_.loop};
};

}  // namespace xpurun::launcher
