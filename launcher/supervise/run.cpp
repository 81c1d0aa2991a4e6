#include "launcher/supervise/run.h"

#include "common/base/error_ids.h"
#include "common/base/output/log.h"
#include "common/base/output/terminal.h"
#include "common/base/scope.h"
#include "common/model/run_dir.h"
#include "launcher/options/exit_status.h"
#include "launcher/output/messages.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/inherited_state.h"
#include "launcher/spawn/spare_descriptors.h"
#include "launcher/storage/run_log.h"
#include "launcher/storage/run_storage.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <sys/resource.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Longest wait for the file system at the end. A caller who waits for the exit status does not wait for the
// disk.
constexpr double kLastWritesS = 1.5;

int status_of_failed_start(const base::Error& e) {
  return e.id == base::kNotFound ? kExitNotFound
                                 : (e.id == base::kNotExecutable ? kExitNotExecutable : kExitOwnFailure);
}

// Descriptors for the pipe that reports a failed exec.
constexpr size_t kNeededForSpawn = 2;
// Further descriptors, for reading /proc and writing run.json after the start.
constexpr size_t kSpareDescriptors = 4;

base::Error too_few_descriptors() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return {.what = "cannot start the command",
          .id = "E-LIMIT",
          .cause = fmt::format("the limit of open files, {}, is too low", limit.rlim_cur),
          .hint = "ulimit -n 1024"};
}

// Longest wait for a slow reader of the last messages.
constexpr double kLastWordsS = 2;

int complain(const base::Error& e, int status) {
  base::write_stderr(base::to_text(e));
  return status;
}

base::Result<OpenedDir> open_dir(const RunOptions& options) {
  return open_run_dir(options.out_dir, options.runs_dir,
                      options.name.empty() ? options.command.at(0) : options.name, options.share_with_group);
}

// -q keeps warnings off the terminal, -v adds xpurun's actions, -vv its observations. xpurun.log has
// everything.
base::LogLevel log_level(int verbosity) {
  if (verbosity <= 0) {
    return verbosity < 0 ? base::LogLevel::error : base::LogLevel::warn;
  }
  return verbosity == 1 ? base::LogLevel::info : base::LogLevel::debug;
}

}  // namespace

int run_job(const RunOptions& options) {
  // Before anything is created: a mistyped command leaves nothing behind.
  if (const auto program = resolve_program(options.command.at(0)); !options.attaches() && !program) {
    return complain(program.error(), status_of_failed_start(program.error()));
  }
  const InheritedState inherited;
  inherited.change_for_supervisor();
  // Only a status line has to be removed before a stop.
  const int stop = options.status == ShowStatus::never || !base::is_terminal(STDERR_FILENO) ? 0 : SIGTSTP;
  // In the order of need: without these there is no supervision; without a later part only that part is
  // missing.
  FooterRecord footer(STDERR_FILENO);
  auto inbox = SignalInbox::open({options.dump_signal, stop});
  auto loop = EventLoop::create();
  auto run = [&]() -> base::Result<RunStorage> {
    // The storage must not take the last descriptors: the storage can work without any, the start of the
    // command cannot.
    std::optional<SpareDescriptors> for_spawn(kNeededForSpawn);
    if (for_spawn->held() < kNeededForSpawn) {
      return base::fail(too_few_descriptors());
    }
    return RunStorage::open(
        [&] {
          for_spawn.reset();  // opening the directory needs a descriptor for a moment
          auto opened = open_dir(options);
          if (opened && SpareDescriptors(kNeededForSpawn).held() < kNeededForSpawn) {
            opened->lock.reset();
          }
          return opened;
        },
        [&footer] { footer.remove_line(); });
  }();
  if (!inbox || !loop || !run) {
    const base::Error& error = !run ? run.error() : inbox ? loop.error() : inbox.error();
    return complain(error, kExitOwnFailure);
  }
  SpareDescriptors spares(kSpareDescriptors);
  Messages messages(*loop, STDERR_FILENO);
  base::log_stderr_through([&](std::string_view text) { messages.write(text); });
  const auto log_directly = base::on_scope_exit([] { base::log_stderr_through(nullptr); });
  base::log_to_stderr(log_level(options.verbosity));
  const std::unique_ptr<Storage> storage = run->connect(*loop);
  RunLog log(*storage, model::RunDir(run->dir().path).log());
  base::log_to([&](std::string_view line) { log.write(line); });
  const auto end_log = base::on_scope_exit([] { base::log_to({}); });
  Supervisor supervisor(*loop, options, *storage, run->dir(),
                        {std::move(*inbox), inherited, spares, messages, footer});
  const auto status = supervisor.run();
  storage->finish(kLastWritesS);
  if (!status) {
    messages.write(base::to_text(status.error()));
  }
  messages.flush(kLastWordsS);
  if (!status) {
    return status_of_failed_start(status.error());
  }
  return *status;
}

}  // namespace xpurun::launcher
