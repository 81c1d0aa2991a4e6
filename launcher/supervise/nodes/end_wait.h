// EndWait: a node whose command has exited cleanly stays for a moment while other nodes still work. If its
// ranks left too early, ranks of the others fail now, and this node's run.json is the evidence. Event loop's
// thread only.
#pragma once

#include "launcher/nodes/joint_decision.h"
#include "launcher/os/timer.h"

#include <functional>

namespace xpurun::launcher {

class EndWait {
 public:
  // `over` is called from the loop, once for each wait that has begun.
  EndWait(EventLoop& loop, const JointDecision& decision, std::function<void()> over)
      : loop_(loop), decision_(decision), over_(std::move(over)) {}
  EndWait(const EndWait&) = delete;
  EndWait& operator=(const EndWait&) = delete;

  // The command has ended.
  void begin();
  // States of other nodes have arrived, or the connection is lost.
  void look();
  bool active() const { return timer_.running(); }

 private:
  void end();

  EventLoop& loop_;
  const JointDecision& decision_;
  std::function<void()> over_;
  Timer timer_{loop_};
};

}  // namespace xpurun::launcher
