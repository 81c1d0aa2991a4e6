// WaitAlarm: ends the blocking system calls of the calling thread with EINTR now and then, so that a wait for
// a thread that never stops can look at the clock. Not on top of another one; the process has no other use
// for its signal.
#pragma once

#include <chrono>
#include <signal.h>
#include <time.h>

namespace xpurun::stackdump {

class WaitAlarm {
 public:
  explicit WaitAlarm(std::chrono::nanoseconds interval);
  WaitAlarm(const WaitAlarm&) = delete;
  WaitAlarm& operator=(const WaitAlarm&) = delete;
  ~WaitAlarm();

  // False where the kernel has no timer left for us: then nobody may block.
  bool armed() const { return armed_; }

 private:
  timer_t timer_{};
  struct sigaction previous_ {};
  bool armed_ = false;
};

}  // namespace xpurun::stackdump
