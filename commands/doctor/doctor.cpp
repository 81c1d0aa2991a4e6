// xpurun doctor: runs the checks one after the other and prints each result at once.
#include "commands/burn/burn.h"
#include "commands/commands.h"
#include "commands/doctor/checks.h"
#include "commands/doctor/finding_text.h"
#include "commands/run_config.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/output/text_block.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kLongestBurnS = 24 * 3600;

Findings ignored_files(const RunConfig& config) {
  Findings out;
  for (const std::string& warning : config.warnings()) {
    out.push_back({.check = "settings",
                   .grade = Grade::warn,
                   .text = warning,
                   .lost = base::tr("the settings of this file"),
                   .remedy = "xpurun env"});
  }
  return out;
}

}  // namespace

int doctor_command(const Invocation& call) {
  const bool json = call.words.settings.has("json");
  if (auto checked = check_language(call); !checked) {
    return complain_usage(call, checked.error().what);
  }
  const base::Speaking speaking(json ? base::Language::english : base::command_language());
  if (const Setting* burn = call.words.settings.find("burn")) {
    const auto seconds = base::parse_duration_s(burn->value);
    if (!seconds || *seconds < 1 || *seconds > kLongestBurnS) {
      return complain_usage(call, base::cli_text("--burn needs a time from 1s to 24h, such as 60s"));
    }
    const Setting* python = call.words.settings.find("python");
    return burn_command(
        {.seconds = *seconds, .python = python == nullptr ? "python3" : python->value, .json = json});
  }
  DoctorContext context{.command = call.child, .program = program_of(call.child)};
  Findings all;
  int printed = 0;
  const auto report = [&](const Findings& found) {
    for (const Finding& finding : found) {
      if (!json) {
        printed |= print(finding_text(finding, help_columns(STDOUT_FILENO), Ink::for_stream(STDOUT_FILENO)));
      }
      all.push_back(finding);
    }
  };
  if (const auto config = run_config(); !config) {
    report({{.check = "settings",
             .grade = Grade::fail,
             .text = base::to_line(config.error()),
             .lost = base::tr("xpurun run refuses to start"),
             .remedy = "xpurun env"}});
  } else {
    report(ignored_files(*config));
    if (const Setting* dir = config->settings.find("runs-dir")) {
      context.runs_dir = dir->value;
    }
  }
  for (const auto check : {check_ptrace, check_preload, check_python, check_gpu, check_gpu_health, check_host,
                           check_machine, check_place}) {
    report(check(context));
  }
  if (json) {
    printed = print(model::json_text(to_json(all), 2) + "\n");
  } else {
    printed |= print(findings_summary(all, help_columns(STDOUT_FILENO), Ink::for_stream(STDOUT_FILENO)));
  }
  return any_failed(all) || printed != 0 ? kExitFailure : 0;
}

}  // namespace xpurun::launcher
