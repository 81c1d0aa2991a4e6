// Removes a temporary directory when the program is interrupted (INT, TERM, HUP, PIPE), then lets the signal
// end the program. One object at a time; child processes start with the default actions.
#pragma once

#include "common/base/os/fd.h"

#include <csignal>
#include <string>
#include <thread>

namespace xpurun::launcher {

// While it lives, the signals that InterruptCleanup handles wait: for the time from the creation of a
// directory to its cleanup. One thread.
class HeldInterrupts {
 public:
  HeldInterrupts();
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
  ~HeldInterrupts();

 private:
  sigset_t before_{};
};

class InterruptCleanup {
 public:
  explicit InterruptCleanup(std::string directory);
  InterruptCleanup(const InterruptCleanup&) = delete;
  InterruptCleanup& operator=(const InterruptCleanup&) = delete;
  ~InterruptCleanup();

 private:
  void wait();

  std::string directory_;
  base::UniqueFd signalled_;  // one byte a signal, its number; 0 ends the thread
  std::thread thread_;
};

}  // namespace xpurun::launcher
