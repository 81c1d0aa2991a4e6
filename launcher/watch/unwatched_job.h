// UnwatchedJob: says, once, that nothing of a job can be watched for hangs, to somebody who has asked for it.
// Such a job has neither a rank's variables nor a CPython: PyPy, a program in C, a shell script. Pure.
#pragma once

#include "launcher/options/run_options.h"

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class UnwatchedJob {
 public:
  explicit UnwatchedJob(const RunOptions& options);

  // The message when it is due: the timeout has passed and no process was ever watched.
  std::optional<std::string> look(double elapsed_s, bool watches, std::string_view program);

 private:
  double timeout_s_;
  bool done_;  // said, or not to be said
};

}  // namespace xpurun::launcher
