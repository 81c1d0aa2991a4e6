#include "launcher/supervise/job_start.h"

#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/evidence/flight_recorder.h"
#include "launcher/journal/run_description.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "launcher/supervise/command_start.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

base::Status JobStart::start(const std::string& notice_path) {
  if (parts_.options.attaches()) {
    attach();
    return {};
  }
  auto started = start_command(notice_path);
  if (!started) {
    model::RunManifest& m = parts_.journal.manifest();
    m.outcome = model::RunOutcome::spawn_failed;
    m.verdict.kind = model::VerdictKind::none;
  }
  return started;
}

base::Status JobStart::start_command(const std::string& notice_path) {
  const RunOptions& options = parts_.options;
  model::RunManifest& m = parts_.journal.manifest();
  Command command{.argv = options.command,
                  .env = with_preload_setup(current_environment(), options, notice_path, m),
                  .signal_mask = setup_.signal_mask,
                  .inherited = parts_.inherited};
  if (options.logs || options.prefix) {
    arrange_logs(command.env);
  }
  if (options.flight_recorder) {
    command.env = with_flight_recorder(std::move(command.env), setup_.directory + "/flight_recorder");
  }
  parts_.spares.release();
  // Children of the shell that became xpurun, as in `2> >(tee log)`, and xpurun's own.
  for (const base::Pid before : base::ProcFs().children(::getpid())) {
    parts_.table.ignore(before);
  }
  XPURUN_TRY_ASSIGN(const base::Pid pid, spawn_command(command));
  m.main_pid = pid;
  parts_.table.set_main(pid);
  return {};
}

void JobStart::arrange_logs(std::vector<std::string>& env) {
  const base::Speaking speaking(parts_.options.language);
  if (parts_.journal.manifest().preload_path.empty()) {
    hooks_.say(base::tr("no logs of single ranks: they need the preload library"));
    return;
  }
  const LinePrefix prefix = parts_.options.prefix ? LinePrefix::rank : LinePrefix::none;
  const auto ignore = [this](base::Pid pid) { parts_.table.ignore(pid); };
  if (const auto started = parts_.logs.start(env, setup_.directory, prefix, ignore); !started) {
    hooks_.say(base::tr("no logs of single ranks: {}", base::to_line(started.error())));
    return;
  }
}

void JobStart::attach() {
  const std::vector<base::Pid>& roots = parts_.options.attach_to;
  describe_foreign_job(parts_.journal.manifest(), roots.front());
  parts_.journal.manifest().attached = true;
  parts_.table.set_roots(roots);
  parts_.table.set_main(roots.front());
  parts_.table.ignore(::getpid());  // the job may contain the shell that xpurun runs in
}

void JobStart::watching() {
  if (!parts_.options.attaches()) {
    return;
  }
  if (parts_.options.judge_now) {
    parts_.journal.manifest().judged_now = true;
    hooks_.judge_now();
    return;
  }
  const size_t processes = parts_.table.living().size();
  const std::string pids = fmt::format("{}", fmt::join(parts_.options.attach_to, ", "));
  const base::Speaking speaking(parts_.options.language);
  hooks_.say(processes == 1 ? base::tr("watching one process of pid {}; Ctrl-C leaves the job as it is", pids)
                            : base::tr("watching {} processes of pid {}; Ctrl-C leaves the job as it is",
                                       processes, pids));
  if (parts_.table.foreign_job_ended()) {
    hooks_.foreign_job_ended();
  }
}

}  // namespace xpurun::launcher
