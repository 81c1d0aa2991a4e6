// xpurun run: options from everywhere, then the supervisor.
#include "launcher/supervise/run.h"

#include "commands/commands.h"
#include "commands/run_config.h"
#include "commands/sharing.h"
#include "common/base/error_ids.h"
#include "common/base/output/log.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/options/chosen_language.h"
#include "launcher/options/command_advice.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/spawn/command_spawner.h"

#include <fmt/format.h>

#include <cerrno>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

void say_origins(const RunOptions& options) {
  for (const model::OptionOrigin& origin : options.origins) {
    base::write_stderr(fmt::format("xpurun: {} = {} ({})\n", origin.name, origin.value, origin.source));
  }
}

// Of those that exist already.
std::vector<std::string> closed_directories(const RunOptions& options) {
  const std::string warning =
      unreachable_for_group(options.out_dir.empty() ? options.runs_dir : options.out_dir + "/..");
  return warning.empty() ? std::vector<std::string>() : std::vector{warning};
}

}  // namespace

int run_command(const Invocation& call) {
  if (call.words.settings.has("version")) {
    return version_command(call);
  }
  const auto config = run_config(call.words.settings);
  if (!config) {
    return complain(config.error(), call.command.usage_status);
  }
  auto options = to_run_options(config->settings);
  if (!options) {
    return complain(options.error(), call.command.usage_status);
  }
  if (options->verbosity >= 0) {
    write_warnings(config->warnings());
    write_warnings(misspelt_environment(config->env));
  }
  if (call.words.settings.has("print-config")) {
    return print(print_config(config->settings));
  }
  if (call.child.empty()) {
    return complain({.what = base::cli_text("no command to run"),
                     .id = "E-USAGE",
                     .hint = "xpurun -- torchrun --nproc_per_node 8 train.py"},
                    call.command.usage_status);
  }
  if (options->verbosity >= 1) {
    say_origins(*options);
  }
  if (const auto program = resolve_program(call.child.front()); !program) {
    const base::Error error = explain_failure(program.error(), call.child);
    return complain(error, error.id == base::kNotFound ? kExitNotFound : kExitNotExecutable);
  }
  if (const std::string option = misplaced_option(call.child); !option.empty() && options->verbosity >= 0) {
    base::write_stderr(
        fmt::format("xpurun: warning: {} stands behind {} and is passed to it; options of xpurun "
                    "stand before the command\n",
                    option, base::sanitize(call.child.front())));
  }
  if (const std::string& library = options->preload_path;
      !library.empty() && ::access(library.c_str(), R_OK) != 0) {
    return complain({.what = base::cli_text("cannot read {}", base::sanitize(library)),
                     .sys_errno = errno,
                     .id = base::kUsage,
                     .cause = base::cli_text("--preload-library names this file"),
                     .hint = "leave --preload-library out, or write --no-preload"},
                    call.command.usage_status);
  }
  if (options->share_with_group && options->verbosity >= 0) {
    write_warnings(closed_directories(*options));
  }
  options->language = chosen_language(config->settings, config->env);
  options->command = call.child;
  // What the supervisor says may be kept in files.
  base::set_command_language(base::Language::english);
  return run_job(*options);
}

}  // namespace xpurun::launcher
