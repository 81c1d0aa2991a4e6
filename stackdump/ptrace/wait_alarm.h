// WaitAlarm: interrupts blocking system calls of the calling thread periodically with EINTR, so that a wait
// for a thread that never stops can check the clock. Alarms must not be nested, and the process must not use
// the signal otherwise.
#pragma once

#include <chrono>
#include <signal.h>

namespace xpurun::stackdump {

class WaitAlarm {
 public:
  explicit WaitAlarm(std::chrono::nanoseconds interval);
  WaitAlarm(const WaitAlarm&) = delete;
  WaitAlarm& operator=(const WaitAlarm&) = delete;
  ~WaitAlarm();

  // False if the kernel refused the timer: then the caller must not block.
  bool armed() const { return armed_; }

 private:
  int timer_ = 0;  // the kernel's number
  struct sigaction previous_ {};
  bool armed_ = false;
};

}  // namespace xpurun::stackdump
