// HandOutWait: a node whose command has ended stays for a moment while what all nodes have sent for the
// verdict is handed out: the node that has judged hands it to the others, each other node gets it. Event
// loop's thread only.
#pragma once

#include "launcher/os/event_loop.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class HandOutWait {
 public:
  // `over` is called once for a wait that has begun, from the loop.
  HandOutWait(EventLoop& loop, std::function<void()> over) : loop_(loop), over_(std::move(over)) {}
  ~HandOutWait() { loop_.cancel(timer_); }
  HandOutWait(const HandOutWait&) = delete;
  HandOutWait& operator=(const HandOutWait&) = delete;

  // What the verdict of that request rests on is being handed out.
  void expect(const std::string& request);
  void command_ended();
  // It is here, or will not come.
  void done(const std::string& request);
  // No word comes from other nodes any more.
  void lost();
  // Somebody has to wait before the end.
  bool active() const { return timer_ != 0; }

 private:
  void look();
  void end();

  EventLoop& loop_;
  std::function<void()> over_;
  std::string request_;  // empty: nothing is expected
  bool ended_ = false;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace xpurun::launcher
