// Starts programs: looks them up in PATH, makes pipes, and reports why an exec failed. One starter for the
// user's command, the dump helpers, the checks of the doctor and other debuggers. Processes that run our own
// code after fork(2) are not started here.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <functional>
#include <optional>
#include <signal.h>
#include <string>
#include <vector>

namespace xpurun::base {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
Result<Pipe> make_pipe();

// The file that execvp(3) would run. A name with a slash is not looked up in PATH. The errno of the error is
// ENOENT, or EACCES if a file was found that cannot be executed.
Result<std::string> find_program(const std::string& name);

// Pointers to the strings, which stay the caller's, and a null pointer: argv and environ as exec(2) wants
// them.
std::vector<char*> c_pointers(const std::vector<std::string>& strings);

struct ProgramStart {
  std::string path;               // the file to run
  std::vector<std::string> argv;  // argv[0] may differ from `path`
  std::vector<std::string> env;   // NAME=VALUE
  int in = -1;                    // standard streams; negative: inherited
  int out = -1;
  int err = -1;
  bool own_group = false;               // leads a process group of its own
  std::optional<sigset_t> signal_mask;  // inherited if empty
  // Runs in the child right before exec(2), in the memory of the caller: async-signal-safe calls only.
  std::function<void()> before_exec;
};

// The child is the caller's to reap. The errno of the error is that of the failed fork(2) or exec(2). A file
// without an interpreter line is run by /bin/sh, as execvp(3) does. Blocks the calling thread until the exec.
// Not for use while another thread may change the environment or descriptors given here.
Result<Pid> start_program(const ProgramStart& start);

}  // namespace xpurun::base
