// xpurun attach: watches processes that run already and were started without xpurun.
#include "commands/attach/now.h"
#include "commands/attach/slurm_step.h"
#include "commands/commands.h"
#include "commands/run_config.h"
#include "common/base/error_ids.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/options/chosen_language.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/supervise/run.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/ptrace/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Reads a byte of the process's memory, as each poll does. The kernel's rule is that of ptrace(2); files
// below /proc have a weaker rule, which Yama does not touch.
base::Status check_readable(base::Pid pid) {
  int refused = EPERM;
  if (const auto maps = stackdump::ProcMaps::read(pid)) {
    const auto& all = maps->all();
    const auto readable = std::find_if(all.begin(), all.end(), [](const auto& m) { return m.readable; });
    stackdump::LiveMemory memory(pid);
    if (readable != all.end() && memory.value<uint8_t>(readable->lo)) {
      return {};
    }
    refused = memory.last_errno() != 0 ? memory.last_errno() : refused;
  }
  return base::fail(stackdump::explain_refusal(pid, refused).context(base::cli_text("cannot watch the job")));
}

// No other xpurun watches the process, and this one may.
base::Status check_unwatched(base::Pid process) {
  if (const base::Pid supervisor = supervisor_of(base::ProcFs(), process); supervisor != 0) {
    return base::fail(base::Error{.what = base::cli_text("process {} is already watched", process),
                                  .id = "E-BUSY",
                                  .cause = base::cli_text("xpurun (pid {}) started it", supervisor),
                                  .hint = "xpurun now"});
  }
  return check_readable(process);
}

base::Result<base::Pid> watchable(const std::string& word) {
  const auto pid = base::parse_int(word);
  if (!pid || *pid <= 0 || *pid > INT32_MAX) {
    return base::fail(base::Error{.what = base::cli_text("'{}' is not a process id", base::sanitize(word)),
                                  .id = base::kUsage,
                                  .hint = "xpurun attach $(pgrep -o torchrun)"});
  }
  const auto process = static_cast<base::Pid>(*pid);
  XPURUN_TRY(stackdump::check_alive(process));
  if (process == ::getpid()) {
    return base::fail(
        base::Error{.what = base::cli_text("this is xpurun's own process"), .id = base::kUsage});
  }
  XPURUN_TRY(check_unwatched(process));
  return process;
}

// The operands and the values of --pid.
std::vector<std::string> named_processes(const Invocation& call) {
  std::vector<std::string> out = call.words.operands;
  if (const Setting* pid = call.words.settings.find("pid")) {
    for (const std::string_view word : base::split(pid->value, ',')) {
      out.emplace_back(base::trim(word));
    }
  }
  return out;
}

// The living children of these processes.
base::Result<std::vector<base::Pid>> children_of(const std::string& list) {
  const base::ProcFs proc;
  std::vector<base::Pid> parents;
  for (const std::string_view word : base::split(list, ',')) {
    const auto pid = base::parse_int(base::trim(word));
    if (!pid || *pid <= 0 || *pid > INT32_MAX) {
      return base::fail(
          base::Error{.what = base::cli_text("--children: '{}' is not a process id", base::sanitize(word)),
                      .id = base::kUsage,
                      .hint = "xpurun attach --children $(pgrep -o torchrun)"});
    }
    parents.push_back(static_cast<base::Pid>(*pid));
    XPURUN_TRY(stackdump::check_alive(parents.back()));
  }
  std::vector<base::Pid> out;
  for (const base::Pid parent : parents) {
    for (const base::Pid pid : proc.children(parent)) {
      const auto stat = proc.stat(pid);
      if (stat && stat->state != 'Z' && pid != ::getpid()) {
        out.push_back(pid);
      }
    }
  }
  if (out.empty()) {
    return base::fail(base::Error{.what = base::cli_text("process {} has no children", base::sanitize(list)),
                                  .id = "E-NO-PROCESS",
                                  .hint = "ps -e -o pid,ppid,args"});
  }
  return out;
}

// The processes to watch, from the operands, --children or --slurm-step.
base::Result<std::vector<base::Pid>> targets(const Invocation& call) {
  std::vector<base::Pid> out;
  if (const Setting* step = call.words.settings.find("slurm-step")) {
    XPURUN_TRY_ASSIGN(const SlurmStep wanted, parse_slurm_step(step->value));
    XPURUN_TRY_ASSIGN(out, processes_of_step(wanted));
    for (const base::Pid pid : out) {
      XPURUN_TRY(check_unwatched(pid));
    }
    return out;
  }
  if (const Setting* parents = call.words.settings.find("children")) {
    XPURUN_TRY_ASSIGN(out, children_of(parents->value));
    for (const base::Pid pid : out) {
      XPURUN_TRY(check_unwatched(pid));
    }
  }
  for (const std::string& word : named_processes(call)) {
    XPURUN_TRY_ASSIGN(const base::Pid pid, watchable(word));
    out.push_back(pid);
  }
  return out;
}

// Whatever has no meaning for a job that runs already is off, and only the command line may ask for its end.
void limit_to_watching(RunOptions& options, const Settings& typed) {
  if (!typed.has("on-hang")) {
    options.on_hang = OnHang::report;
  }
  options.preload = false;
  options.python_hooks = false;
  options.logs = false;
  options.prefix = false;
  options.flight_recorder = false;
  options.timing = Timing::off;
  options.nodes = default_run_options().nodes;
}

void judge_now(RunOptions& options) {
  options.judge_now = true;
  // Some samples within the second.
  constexpr double kSamplesEveryS = 0.2;
  options.poll_s = kSamplesEveryS;
  options.status = ShowStatus::never;
}

// The options of the watch, from the words of `call`.
base::Result<RunOptions> watch_options(const Invocation& call) {
  XPURUN_TRY_ASSIGN(const RunConfig config, run_config(call.words.settings));
  XPURUN_TRY_ASSIGN(RunOptions options, to_run_options(config.settings));
  options.language = chosen_language(config.settings, config.env);
  if (options.verbosity >= 0) {
    write_warnings(config.warnings());
  }
  limit_to_watching(options, call.words.settings);
  return options;
}

int watch(RunOptions options, std::vector<base::Pid> pids) {
  options.attach_to = std::move(pids);
  options.command = base::ProcFs().cmdline(options.attach_to.front());
  if (options.command.empty()) {
    options.command = {fmt::format("pid-{}", options.attach_to.front())};
  }
  // What the supervisor says may be kept in files.
  base::set_command_language(base::Language::english);
  return run_job(options);
}

// The xpurun that has started one of the named processes; 0 if none has.
base::Pid supervisor_of_any(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const auto pid = base::parse_int(word);
    const bool known = pid && *pid > 0 && *pid <= INT32_MAX;
    if (const base::Pid found = known ? supervisor_of(base::ProcFs(), static_cast<base::Pid>(*pid)) : 0;
        found > 0) {
      return found;
    }
  }
  return 0;
}

}  // namespace

int judge_unwatched(const Invocation& call, std::vector<base::Pid> targets) {
  for (const base::Pid pid : targets) {
    if (const auto readable = check_readable(pid); !readable) {
      return complain(readable.error(), kExitOwnFailure);
    }
  }
  auto options = watch_options(call);
  if (!options) {
    return complain(options.error(), call.command.usage_status);
  }
  judge_now(*options);
  return watch(std::move(*options), std::move(targets));
}

int attach_command(const Invocation& call) {
  const bool by_step = call.words.settings.has("slurm-step");
  const bool by_process = !named_processes(call).empty() || call.words.settings.has("children");
  if (!by_process && !by_step) {
    return complain_usage(
        call, base::cli_text("no process id; give that of torchrun, those of all ranks, or --slurm-step"));
  }
  if (by_process && by_step) {
    return complain_usage(call, base::cli_text("give process ids or --slurm-step, not both"));
  }
  auto options = watch_options(call);
  if (!options) {
    return complain(options.error(), call.command.usage_status);
  }
  if (options->on_hang == OnHang::restart && call.words.settings.has("on-hang")) {
    return complain_usage(
        call, base::cli_text("--on-hang restart needs a job that xpurun started; choose report or kill"));
  }
  if (call.words.settings.has("now")) {
    if (options->on_hang != OnHang::report) {
      return complain_usage(call, base::cli_text("--now ends no job: leave --on-hang out"));
    }
    if (const base::Pid supervisor = supervisor_of_any(named_processes(call)); supervisor > 0) {
      return judge_supervised(supervisor);
    }
    judge_now(*options);
  }
  auto pids = targets(call);
  if (!pids) {
    return complain(pids.error(),
                    pids.error().id == base::kUsage ? call.command.usage_status : kExitOwnFailure);
  }
  return watch(std::move(*options), std::move(*pids));
}

}  // namespace xpurun::launcher
