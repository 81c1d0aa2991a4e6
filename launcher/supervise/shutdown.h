// Shutdown: ends the job's processes, and only those: TERM to all, a grace time, then KILL. A state machine
// on the event loop; nothing here waits.
#pragma once

#include "launcher/supervise/event_loop.h"
#include "launcher/supervise/process_table.h"

namespace xpurun::launcher {

class Shutdown {
 public:
  Shutdown(EventLoop& loop, ProcessTable& table) : loop_(loop), table_(table) {}
  ~Shutdown() { loop_.cancel(timer_); }
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;

  // grace_s kForever: never KILL. Stopped processes are continued, or they could not end.
  void terminate(double grace_s);
  void kill_now();
  bool active() const { return active_; }

 private:
  void signal_all(int signal);

  EventLoop& loop_;
  ProcessTable& table_;
  EventLoop::TimerId timer_ = 0;
  bool active_ = false;
};

}  // namespace xpurun::launcher
