// Starts programs: looks them up in PATH, makes pipes, and reports why an exec failed. One starter for the
// user's command, the dump helpers, the checks of the doctor and other debuggers. Processes that run xpurun's
// own code after fork(2) are not started here.
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
// Both ends are close-on-exec and blocking.
Result<Pipe> make_pipe();

// The file that execvp(3) would run. Names with a slash are not looked up in PATH. The error's errno is
// ENOENT, or EACCES if the file was found but cannot be executed.
Result<std::string> find_program(const std::string& name);

// Pointers to the strings plus a null pointer: argv or environ for exec(2). The caller keeps the strings
// alive.
std::vector<char*> c_pointers(const std::vector<std::string>& strings);

struct ProgramStart {
  std::string path;               // the file to run
  std::vector<std::string> argv;  // argv[0] may differ from `path`
  std::vector<std::string> env;   // NAME=VALUE
  int in = -1;                    // standard streams; negative: inherited
  int out = -1;
  int err = -1;
  bool own_group = false;               // the child leads a new process group
  std::optional<sigset_t> signal_mask;  // inherited if empty
  // Runs in the child directly before exec(2), in the caller's memory: async-signal-safe calls only.
  std::function<void()> before_exec;
};

// Starts the program and blocks until its exec. The caller must reap the child. The error's errno is that of
// the failed fork(2) or exec(2). A file without an interpreter line is run by /bin/sh, as with execvp(3).
// Thread rule: no other thread may change the environment or the descriptors given here.
Result<Pid> start_program(const ProgramStart& start);

}  // namespace xpurun::base
