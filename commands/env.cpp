// xpurun env: what `xpurun run` would use here, and why.
#include "commands/commands.h"
#include "commands/run_config.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

std::string for_people(const RunConfig& config) {
  std::string out = print_config(config.settings);
  out += '\n';
  for (const ConfigFile& file : config.files) {
    out += fmt::format("{}: {}\n", base::sanitize(file.path),
                       file.found             ? "read"
                       : file.ignored.empty() ? "not there"
                                              : "ignored");
  }
  return out;
}

std::string for_programs(const RunConfig& config, const std::vector<std::string>& warnings) {
  Json j;
  j["schema"] = "xpurun.env/1";
  auto& options = j["options"] = Json::array();
  for (const OptionSpec& o : run_options()) {
    if (o.scope == Scope::command_line) {
      continue;
    }
    const Setting* s = config.settings.find(o.name);
    options.push_back({{"name", o.name},
                       {"value", s != nullptr ? s->value : std::string(o.default_text)},
                       {"source", s != nullptr ? s->source : "default"},
                       {"variable", env_name(o)}});
  }
  auto& files = j["files"] = Json::array();
  for (const ConfigFile& file : config.files) {
    files.push_back({{"path", file.path}, {"found", file.found}, {"ignored", !file.ignored.empty()}});
  }
  j["warnings"] = warnings;
  return model::json_text(j, 2) + "\n";
}

}  // namespace

int env_command(const Invocation& call) {
  if (!call.words.operands.empty()) {
    return complain_usage(
        call, base::cli_text("env takes no arguments; to run the program env: xpurun -- env ..."));
  }
  const auto config = run_config();
  if (!config) {
    return complain(config.error(), kExitFailure);
  }
  auto warnings = config->warnings();
  for (std::string& unknown : unknown_environment(config->env)) {
    warnings.push_back(std::move(unknown));
  }
  const bool json = call.words.settings.has("json");
  const int printed = print(json ? for_programs(*config, warnings) : for_people(*config));
  if (!json) {
    write_warnings(warnings);
  }
  // A value that run would refuse is an error here too.
  if (const auto options = to_run_options(config->settings); !options) {
    return complain(options.error(), kExitFailure);
  }
  return printed;
}

}  // namespace xpurun::launcher
