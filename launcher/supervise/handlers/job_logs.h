// JobLogs: the relay of the ranks' output (--logs, --prefix), if there is one. Event loop's thread only.
#pragma once

#include "launcher/relay/log_relay.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class JobLogs {
 public:
  explicit JobLogs(EventLoop& loop) : loop_(loop) {}

  // Starts the relay, from which the preload library of each rank gets its pipes, and adds the relay's
  // address to `env`. `run_dir` is absolute. `helper_started` gets the pid of each process of the relay. On
  // an error there are no logs of single ranks, but the command can still start.
  base::Status start(std::vector<std::string>& env, const std::string& run_dir, LinePrefix prefix,
                     std::function<void(base::Pid)> helper_started);
  // Relays everything that the ranks have written, then calls `done`; without a relay at once.
  void finish(std::function<void()> done);
  // Leaves the rest of the output unwritten. False without a relay.
  bool give_up();

  base::Pid pid() const { return relay_ ? relay_->pid() : 0; }
  bool is_helper(base::Pid pid) const { return relay_ && relay_->pid() == pid; }
  bool helper_ended(base::Pid pid, base::WaitStatus status) {
    return relay_ && relay_->helper_ended(pid, status);
  }

 private:
  EventLoop& loop_;
  std::optional<LogRelay> relay_;
};

}  // namespace xpurun::launcher
