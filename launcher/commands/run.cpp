// xpurun run: options from everywhere, then the supervisor.
#include "launcher/supervise/run.h"

#include "common/base/io.h"
#include "common/base/log.h"
#include "launcher/cli/run_settings.h"
#include "launcher/commands/commands.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

base::Result<Settings> gather(const Invocation& call, const std::map<std::string, std::string>& env) {
  Settings settings = call.words.settings;
  add_environment(settings, call.command, env);
  XPURUN_TRY(add_config_file(settings, call.command, "xpurun.conf", FileLevel::project));
  if (const std::string path = user_config_path(env); !path.empty()) {
    XPURUN_TRY(add_config_file(settings, call.command, path, FileLevel::user));
  }
  return settings;
}

void say_origins(const RunOptions& options) {
  for (const OptionOrigin& origin : options.origins) {
    (void)base::write_all(STDERR_FILENO,
                          fmt::format("xpurun: {} = {} ({})\n", origin.name, origin.value, origin.source));
  }
}

}  // namespace

int run_command(const Invocation& call) {
  if (call.words.settings.has("version")) {
    return version_command(call);
  }
  const auto env = process_environment();
  const auto settings = gather(call, env);
  if (!settings) {
    return complain(settings.error(), call.command.usage_status);
  }
  auto options = to_run_options(*settings);
  if (!options) {
    return complain(options.error(), call.command.usage_status);
  }
  if (options->verbosity >= 0) {
    for (const std::string& warning : misspelt_environment(env)) {
      (void)base::write_all(STDERR_FILENO, fmt::format("xpurun: warning: {}\n", warning));
    }
  }
  if (call.words.settings.has("print-config")) {
    return print(print_config(*settings));
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
