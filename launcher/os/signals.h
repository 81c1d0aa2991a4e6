// SignalInbox: the signals the supervisor receives, as records read from a signalfd. Blocks them for the
// process; original_mask() is what children must get back. SIGTSTP, SIGTTIN and SIGTTOU are left alone, so
// that job control stops us together with the job, as if we were not there.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <functional>
#include <initializer_list>
#include <signal.h>

namespace xpurun::launcher {

struct ReceivedSignal {
  int number = 0;
  int code = 0;    // si_code; SI_KERNEL for those of the terminal
  int sender = 0;  // pid, 0 if the kernel's
};

class SignalInbox {
 public:
  // Forwarded ones, SIGCHLD and `extra` (0 among them: none).
  static base::Result<SignalInbox> open(std::initializer_list<int> extra);

  int fd() const { return fd_.get(); }
  const sigset_t& original_mask() const { return original_mask_; }
  // Calls `handler` for each pending record.
  void drain(const std::function<void(const ReceivedSignal&)>& handler) const;

 private:
  base::UniqueFd fd_;
  sigset_t original_mask_{};
};

// "USR2", "SIGUSR2" or "12"; 0 if it is none.
int signal_number(std::string_view name);

}  // namespace xpurun::launcher
