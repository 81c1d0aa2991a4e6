// xpurun run: options from everywhere, then the supervisor.
#include "launcher/supervise/run.h"

#include "common/base/io.h"
#include "common/base/log.h"
#include "launcher/cli/run_settings.h"
#include "launcher/commands/commands.h"
#include "launcher/commands/run_config.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

void say_origins(const RunOptions& options) {
  for (const model::OptionOrigin& origin : options.origins) {
    (void)base::write_all(STDERR_FILENO,
                          fmt::format("xpurun: {} = {} ({})\n", origin.name, origin.value, origin.source));
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
      (void)base::write_all(STDERR_FILENO, fmt::format("xpurun: warning: {}\n", warning));
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
  options->command = call.child;
  return run_job(*options);
}

}  // namespace xpurun::launcher
