// xpurun run: options from everywhere, then the supervisor.
#include "launcher/supervise/run.h"

#include "common/base/output/log.h"
#include "common/base/output/terminal.h"
#include "common/base/suggest.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/run_config.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/spawn/command_spawner.h"

#include <fmt/format.h>

#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// "xpurun doctr" is a misspelt subcommand, not a program.
std::optional<base::Error> misspelt_command(const std::string& program) {
  auto found = resolve_program(program);
  if (found || found.error().id != "E-NOT-FOUND") {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const CommandSpec& c : command_table()) {
    names.emplace_back(c.name);
  }
  const auto near = base::closest(program, names);
  if (!near) {
    return std::nullopt;
  }
  found.error().cause = fmt::format("there is no such program; did you mean xpurun {}?", *near);
  found.error().hint = fmt::format("xpurun help {}", *near);
  return std::move(found.error());
}

void say_origins(const RunOptions& options) {
  for (const model::OptionOrigin& origin : options.origins) {
    base::tell(fmt::format("xpurun: {} = {} ({})\n", origin.name, origin.value, origin.source));
  }
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
    for (const std::string& warning : misspelt_environment(config->env)) {
      base::tell(fmt::format("xpurun: warning: {}\n", warning));
    }
  }
  if (call.words.settings.has("print-config")) {
    return print(print_config(config->settings));
  }
  if (call.child.empty()) {
    return complain_usage(call, "no command to run");
  }
  if (options->verbosity >= 1) {
    say_origins(*options);
  }
  if (const auto misspelt = misspelt_command(call.child.front())) {
    return complain(*misspelt, kExitNotFound);
  }
  options->command = call.child;
  return run_job(*options);
}

}  // namespace xpurun::launcher
