// UnwatchedJob: warns once that no process of the job can be watched for hangs, if the user asked for hang
// detection. Such a job has neither rank variables nor CPython: PyPy, a C program, a shell script. Pure.
#pragma once

#include "launcher/options/run_options.h"

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class UnwatchedJob {
 public:
  explicit UnwatchedJob(const RunOptions& options);

  // The message when due: the timeout has passed and no process was ever watched.
  std::optional<std::string> look(double elapsed_s, bool watches, std::string_view program);

 private:
  double timeout_s_;
  bool done_;  // the message was printed or is not needed
};

}  // namespace xpurun::launcher
