// SignalInbox: the signals that the supervisor receives, read as records from a signalfd. Blocks these
// signals in the process; children must get original_mask() back. SIGTSTP, SIGTTIN and SIGTTOU stay
// unblocked, so that job control stops xpurun together with the job.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <functional>
#include <initializer_list>
#include <signal.h>

namespace xpurun::launcher {

struct ReceivedSignal {
  int number = 0;
  int code = 0;    // si_code; SI_KERNEL for signals from the terminal
  int sender = 0;  // pid; 0: the kernel
};

class SignalInbox {
 public:
  // The forwarded signals, SIGCHLD and `extra` (0 in `extra` is ignored).
  static base::Result<SignalInbox> open(std::initializer_list<int> extra);

  int fd() const { return fd_.get(); }
  const sigset_t& original_mask() const { return original_mask_; }
  // Calls `handler` for each pending record.
  void drain(const std::function<void(const ReceivedSignal&)>& handler) const;

 private:
  base::UniqueFd fd_;
  sigset_t original_mask_{};
};

// "USR2", "SIGUSR2" or "12"; 0 for anything else.
int signal_number(std::string_view name);

}  // namespace xpurun::launcher
