// HelperProcess: a short-lived program of xpurun with pipes to its stdin and from its stdout. The owner of
// the event loop reaps it. The destructor kills a running helper.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <cstddef>
#include <functional>
#include <signal.h>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

class HelperProcess {
 public:
  HelperProcess() = default;
  ~HelperProcess() { kill(); }
  HelperProcess(HelperProcess&&) noexcept;
  HelperProcess& operator=(HelperProcess&&) noexcept;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  // stderr goes to `stderr_fd` (inherited if negative). Own process group, so that the terminal's signals
  // spare it.
  static base::Result<HelperProcess> start(const std::vector<std::string>& argv, const sigset_t& signal_mask,
                                           int stderr_fd);

  base::Pid pid() const { return pid_; }
  int output() const { return output_.get(); }  // non-blocking read end of its stdout
  int input() const { return input_.get(); }    // blocking write end of its stdin
  void close_output() { output_.reset(); }
  void close_input() { input_.reset(); }  // releases a helper that waits at its barrier
  // Call after the process was reaped: its pid may be reused from now on.
  void forget() { pid_ = 0; }
  void kill();
  // After kill(), where the event loop reaps nobody any more: waits at most 0.1 s for the end.
  void wait_briefly() const;

  // Takes each complete line that the output has at the moment. `rest` keeps the begin of a line that is not
  // complete yet, between the calls; longer than `longest` bytes, it is dropped: a broken helper must not
  // fill the supervisor's memory. False at the end of the output.
  bool read_lines(std::string& rest, size_t longest, const std::function<void(std::string_view)>& take) const;

 private:
  base::Pid pid_ = 0;
  base::UniqueFd input_;
  base::UniqueFd output_;
};

}  // namespace xpurun::launcher
