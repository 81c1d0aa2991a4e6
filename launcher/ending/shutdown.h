// Shutdown: ends the job's processes and no others: TERM to all, a grace time, then KILL. A state machine on
// the event loop; nothing here blocks.
#pragma once

#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"

namespace xpurun::launcher {

class Shutdown {
 public:
  Shutdown(EventLoop& loop, ProcessTable& table) : loop_(loop), table_(table) {}
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;

  // grace_s kForever: never KILL. Stopped processes are continued, because otherwise they could not end.
  void terminate(double grace_s);
  // KILL to all, now and again every 0.2 s for processes forked in the meantime.
  void kill_now();
  bool active() const { return active_; }
  // Whether waiting for the remaining processes makes sense: they will be killed, or were killed recently.
  // Processes that the kernel cannot end, for example because of a dead file system, do not count.
  bool has_work(base::MonoNs now) const;

 private:
  void signal_all(int signal);

  EventLoop& loop_;
  ProcessTable& table_;
  Timer timer_{loop_};
  bool active_ = false;
  base::MonoNs killed_at_ = 0;  // 0: not yet
};

}  // namespace xpurun::launcher
