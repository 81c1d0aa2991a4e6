// A child process whose output goes to a file: own process group, standard input from /dev/null. The child is
// sent SIGTERM when this process dies. Single-threaded callers only.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <signal.h>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct QuietProcess {
  std::vector<std::string> argv;  // the program's path first
  std::vector<std::string> env;   // NAME=VALUE
  std::string directory;          // working directory
  std::string output;             // file for standard output and standard error
  sigset_t signal_mask{};         // of the child
};

// The caller reaps the child.
base::Result<base::Pid> start(const QuietProcess& process);

// The environment of a job of the selftest: that of this process without the variables of another job or run,
// and with the users' configuration files out of reach (in `scratch`).
std::vector<std::string> job_environment(const std::vector<std::string>& own, const std::string& scratch);

}  // namespace xpurun::launcher
