// Child processes of a command. Their output is kept. At the time limit the child and its process group are
// killed. Single-threaded callers only: run_function forks without exec.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class CommandChild {
 public:
  ~CommandChild() { kill(); }
  CommandChild(CommandChild&& other) noexcept;
  CommandChild& operator=(CommandChild&&) = delete;
  CommandChild(const CommandChild&) = delete;

  // Standard input from /dev/null, standard error dropped. `env` are NAME=VALUE.
  static base::Result<CommandChild> start(const std::vector<std::string>& argv,
                                          const std::vector<std::string>& env);
  // Forks. The child's standard output is the pipe; the return value of `body` is the exit status.
  static base::Result<CommandChild> fork(const std::function<int()>& body);

  base::Pid pid() const { return pid_; }
  // The next line of the output; nothing at the end of the output or at the time limit.
  std::optional<std::string> line(double timeout_s);
  // Reads to the end and waits; nothing if the child was killed at the time limit.
  std::optional<int> finish(double timeout_s);
  const std::string& output() const { return output_; }

 private:
  CommandChild(base::Pid pid, base::UniqueFd out) : pid_(pid), out_(std::move(out)) {}
  bool read_some(double timeout_s);
  void kill();

  base::Pid pid_ = 0;
  base::UniqueFd out_;
  std::string output_;  // all output so far
  size_t taken_ = 0;    // bytes of output_ already returned as lines
};

struct ProgramOutput {
  int status = -1;  // exit status; 128+N for a signal; -1: not started, or killed at its time limit
  std::string output;
};
ProgramOutput run_program(const std::vector<std::string>& argv, double timeout_s);
ProgramOutput run_function(const std::function<int()>& body, double timeout_s);

// The file that `name` means on PATH; empty if there is none.
std::string find_program(const std::string& name);

}  // namespace xpurun::launcher
