// Removes a temporary directory if the program is interrupted (INT, TERM, HUP, PIPE), and then ends of that
// signal as it would have without. One at a time in a program; children start with the default actions.
#pragma once

#include "common/base/fd.h"

#include <string>
#include <thread>

namespace xpurun::launcher {

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
