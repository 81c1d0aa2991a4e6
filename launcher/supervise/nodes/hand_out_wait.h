// HandOutWait: a node whose command has ended stays for a moment while the archives behind a verdict are
// handed out: the node that has judged sends them, each other node receives them. Event loop's thread only.
#pragma once

#include "launcher/os/timer.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class HandOutWait {
 public:
  // `over` is called from the loop, once for each wait that has begun.
  HandOutWait(EventLoop& loop, std::function<void()> over) : loop_(loop), over_(std::move(over)) {}
  HandOutWait(const HandOutWait&) = delete;
  HandOutWait& operator=(const HandOutWait&) = delete;

  // The archives behind the verdict of that request are being handed out.
  void expect(const std::string& request);
  void command_ended();
  // The archives have arrived, or will not arrive.
  void done(const std::string& request);
  // The connection to the other nodes is lost.
  void lost();
  // The end of the run has to wait.
  bool active() const { return timer_.running(); }

 private:
  void look();
  void end();

  EventLoop& loop_;
  std::function<void()> over_;
  std::string request_;  // empty: nothing is expected
  bool ended_ = false;
  Timer timer_{loop_};
};

}  // namespace xpurun::launcher
