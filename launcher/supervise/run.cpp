#include "launcher/supervise/run.h"

#include "common/base/io.h"
#include "common/base/log.h"
#include "common/base/scope.h"
#include "common/base/terminal.h"
#include "common/model/run_dir.h"
#include "launcher/cli/exit_status.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/storage/run_storage.h"
#include "launcher/supervise/supervisor.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// At the end, for an answer of the file system. Whoever waits for the exit status does not wait for the disk.
constexpr double kLastWritesS = 1.5;

int status_of_failed_start(const base::Error& e) {
  return e.id == "E-NOT-FOUND" ? kExitNotFound
                               : (e.id == "E-NOT-EXECUTABLE" ? kExitNotExecutable : kExitOwnFailure);
}

int complain(const base::Error& e, int status) {
  (void)base::write_all(STDERR_FILENO, base::to_text(e));
  return status;
}

base::Result<OpenedDir> open_dir(const RunOptions& options) {
  return open_run_dir(options.out_dir, options.runs_dir,
                      options.name.empty() ? options.command.at(0) : options.name);
}

}  // namespace

int run_job(const RunOptions& options) {
  // Before anything is created: a mistyped command leaves nothing behind.
  if (const auto program = resolve_program(options.command.at(0)); !program) {
    return complain(program.error(), status_of_failed_start(program.error()));
  }
  auto run = RunStorage::open([&] { return open_dir(options); });
  if (!run) {
    return complain(run.error(), kExitOwnFailure);
  }
  // Only a status line has something to put away before a stop.
  const int stop = options.status == StatusLine::never || !base::is_terminal(STDERR_FILENO) ? 0 : SIGTSTP;
  auto inbox = SignalInbox::open({options.dump_signal, stop});
  auto loop = EventLoop::create();
  if (!inbox || !loop) {
    return complain(inbox ? loop.error() : inbox.error(), kExitOwnFailure);
  }
  const std::unique_ptr<Storage> storage = run->connect(*loop);
  const std::string log = model::RunDir(run->dir().path).log();
  base::log_to([&](std::string_view line) { storage->append_or_create(log, std::string(line)); });
  const auto end_log = base::on_scope_exit([] { base::log_to({}); });
  Supervisor supervisor(*loop, options, *storage, run->dir(), std::move(*inbox));
  const auto status = supervisor.run();
  storage->finish(kLastWritesS);
  if (!status) {
    return complain(status.error(), status_of_failed_start(status.error()));
  }
  return *status;
}

}  // namespace xpurun::launcher
