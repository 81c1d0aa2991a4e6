// HelperProcess: one of our own short-lived programs, with a pipe to its stdin and one from its stdout. Its
// death is the reaper's business; destroying this object kills it if it still runs.
#pragma once

#include "common/base/fd.h"
#include "common/base/ids.h"
#include "common/base/result.h"

#include <signal.h>
#include <string>
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
  void close_output() { output_.reset(); }
  void close_input() { input_.reset(); }  // releases a helper that waits at its barrier
  // To be called when the reaper has seen it end: the pid may mean somebody else from now on.
  void forget() { pid_ = 0; }
  void kill();

 private:
  base::Pid pid_ = 0;
  base::UniqueFd input_;
  base::UniqueFd output_;
};

}  // namespace xpurun::launcher
