// LimitedProgram: one program of the user that xpurun runs beside the job, with text on its standard input,
// its output line by line, and a time limit. The program leads a process group of its own. At the limit and
// after the program's end, that group is killed, and so are the processes that have left the group (setsid):
// no process stays behind. Its environment is that of xpurun without the preload library, with
// XPURUN_EVENT_PROGRAM. The owner of the event loop reaps it. Event loop's thread only; no function blocks.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/os/wait_status.h"
#include "common/model/vocabulary.h"
#include "launcher/os/timer.h"

#include <functional>
#include <signal.h>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct ProgramEnd {
  model::ProgramStatus status = model::ProgramStatus::ok;
  std::string reason;  // of a failure: "exited with status 3"
  double seconds = 0;
};

class LimitedProgram {
 public:
  struct Setup {
    EventLoop& loop;
    sigset_t signal_mask{};
    std::function<void(base::Pid)> started;  // receives the pid, which does not belong to the job
  };
  struct Handlers {
    std::function<void(std::string_view)> line;  // of standard output and error together
    std::function<void(const ProgramEnd&)> done;
  };

  explicit LimitedProgram(Setup setup) : setup_(std::move(setup)) {}
  ~LimitedProgram();
  LimitedProgram(const LimitedProgram&) = delete;
  LimitedProgram& operator=(const LimitedProgram&) = delete;

  // `argv[0]` is looked up in PATH. `done` is called once, later, from the loop; then this may be destroyed.
  void start(const std::vector<std::string>& argv, const std::string& input, double limit_s,
             Handlers handlers);
  bool busy() const { return handlers_.done != nullptr; }
  // Kills the program. It counts as having exceeded its limit, for this reason.
  void give_up(const std::string& why);
  // Call for every reaped child. Returns whether the pid was the program.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  base::Status launch(const std::vector<std::string>& argv, const std::string& input);
  void read_output();
  void finish(model::ProgramStatus status, std::string reason);
  void kill_all() const;

  Setup setup_;
  Handlers handlers_;
  base::Pid pid_ = 0;
  bool is_reaped_ = false;
  std::string mark_;  // XPURUN_EVENT_PROGRAM of the program and of its children
  base::UniqueFd output_;
  std::string pending_;    // the last line, not ended yet
  size_t read_bytes_ = 0;  // so far
  base::MonoNs started_ = 0;
  Timer deadline_{setup_.loop};
};

}  // namespace xpurun::launcher
