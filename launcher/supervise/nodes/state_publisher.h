// StatePublisher: sends the state of this node's part of the job to the helper every 2 s, and on request.
// Event loop's thread only.
#pragma once

#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/nodes/node_state.h"
#include "launcher/os/timer.h"
#include "launcher/watch/watcher.h"

#include <functional>

namespace xpurun::launcher {

class StatePublisher {
 public:
  struct Parts {
    EventLoop& loop;
    const Journal& journal;
    const Watcher& watcher;
    const JobState& job;
  };
  struct Hooks {
    std::function<bool()> heard;  // the helper runs
    std::function<void(const StateMessage&)> send;
    std::function<NewestCalls()> calls;
  };

  StatePublisher(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  StatePublisher(const StatePublisher&) = delete;
  StatePublisher& operator=(const StatePublisher&) = delete;

  // Sends now, then every 2 s while the helper runs.
  void report();
  void stop() { timer_.stop(); }
  void set_stalled(bool stalled) { stalled_ = stalled; }
  bool stalled() const { return stalled_; }

 private:
  NodePhase phase() const;

  Parts parts_;
  Hooks hooks_;
  bool stalled_ = false;  // ranks of this node have been still for the timeout
  Timer timer_{parts_.loop};
};

}  // namespace xpurun::launcher
