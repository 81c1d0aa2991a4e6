// NativeLooks: looks at the main threads of native ranks, one at a time, by a helper (xpurun-stackdump),
// which stops the rank for less than a millisecond. Event loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"
#include "launcher/os/timer.h"
#include "launcher/processes/native_look.h"
#include "launcher/spawn/helper_process.h"

#include <functional>
#include <signal.h>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class NativeLooks {
 public:
  struct Setup {
    EventLoop& loop;
    sigset_t signal_mask{};
    int stderr_fd = -1;
    std::function<void(base::Pid)> started;                    // receives the helper's pid
    std::function<void(base::Pid, const NativeLook&)> looked;  // without frames: the look has failed
  };

  explicit NativeLooks(Setup setup) : setup_(std::move(setup)) {}
  ~NativeLooks() { stop(); }
  NativeLooks(const NativeLooks&) = delete;
  NativeLooks& operator=(const NativeLooks&) = delete;

  // Starts a look, unless one is under way.
  void look_at(base::Pid pid, LookFor wanted);
  // Ends a look under way: a dump begins, and only one process can hold the rank. Waits until the helper has
  // let the rank go, at most for a fraction of a second.
  void give_up();
  bool is_helper(base::Pid pid) const { return helper_.pid() > 0 && helper_.pid() == pid; }
  // Call for every reaped child. True if the pid was the helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void read_output();
  void take(std::string_view line);
  void stop();

  Setup setup_;
  HelperProcess helper_;
  Timer deadline_{setup_.loop};
  base::Pid target_ = 0;
  NativeLook look_;
  std::string text_;  // of the line that is not complete yet
};

}  // namespace xpurun::launcher
