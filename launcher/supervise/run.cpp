#include "launcher/supervise/run.h"

#include "common/base/log.h"
#include "common/base/terminal.h"
#include "common/model/run_dir.h"
#include "launcher/cli/exit_status.h"
#include "launcher/runs/run_lock.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/supervise/supervisor.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

int status_of_failed_start(const base::Error& e) {
  return e.id == "E-NOT-FOUND" ? kExitNotFound
                               : (e.id == "E-NOT-EXECUTABLE" ? kExitNotExecutable : kExitOwnFailure);
}

int complain(const base::Error& e, int status) {
  base::tell(base::to_text(e));
  return status;
}

base::Result<model::RunDir> make_run_dir(const RunOptions& options) {
  if (!options.out_dir.empty()) {
    return model::RunDir::create_at(options.out_dir);
  }
  return model::RunDir::create(options.runs_dir, options.name.empty() ? options.command.at(0) : options.name);
}

// -q keeps warnings off the terminal, -v adds what xpurun does, -vv what it sees. xpurun.log has everything.
base::LogLevel log_level(int verbosity) {
  if (verbosity <= 0) {
    return verbosity < 0 ? base::LogLevel::error : base::LogLevel::warn;
  }
  return verbosity == 1 ? base::LogLevel::info : base::LogLevel::debug;
}

}  // namespace

int run_job(const RunOptions& options) {
  // Before anything is created: a mistyped command leaves nothing behind.
  if (const auto program = resolve_program(options.command.at(0)); !program) {
    return complain(program.error(), status_of_failed_start(program.error()));
  }
  auto dir = make_run_dir(options);
  if (!dir) {
    return complain(dir.error(), kExitOwnFailure);
  }
  base::log_to_stderr(log_level(options.verbosity));
  base::log_to_file(dir->log());
  // Held until we end: `xpurun runs prune` leaves this directory alone.
  const auto lock = RunLock::take(dir->path());
  if (!lock) {
    base::log_info("{}", base::to_line(lock.error()));
  }
  // Only a status line has something to put away before a stop.
  const int stop = options.status == StatusLine::never || !base::is_terminal(STDERR_FILENO) ? 0 : SIGTSTP;
  auto inbox = SignalInbox::open({options.dump_signal, stop});
  auto loop = EventLoop::create();
  if (!inbox || !loop) {
    return complain(inbox ? loop.error() : inbox.error(), kExitOwnFailure);
  }
  Supervisor supervisor(*loop, options, std::move(*dir), std::move(*inbox));
  const auto status = supervisor.run();
  if (!status) {
    return complain(status.error(), status_of_failed_start(status.error()));
  }
  return *status;
}

}  // namespace xpurun::launcher
