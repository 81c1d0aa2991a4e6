// xpurun analyze DIR...: which rank is slow, since when and why, from the span files and event files of a
// run.
#include "commands/analyze/analyze_text.h"
#include "commands/analyze/comparison_text.h"
#include "commands/analyze/run_speed.h"
#include "commands/commands.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "common/model/run_dir.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/compare/compare.h"
#include "report/formats/systrace.h"
#include "report/render/speed/spoken_speed.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

std::string json_text(const model::SpeedReport& report, const std::optional<model::Comparison>& comparison) {
  Json j = to_json(report);
  if (comparison) {
    j["comparison"] = to_json(*comparison);
  }
  return model::json_text(j, 2) + "\n";
}

std::string people_text(model::SpeedReport report, const std::optional<model::Comparison>& comparison) {
  const base::Speaking speaking(base::command_language());
  if (base::spoken() != base::Language::english) {
    report::translate_speed(report);
  }
  const size_t columns = help_columns(STDOUT_FILENO);
  std::string out = analysis_text(report, columns);
  if (comparison) {
    out += "\n" + text_block(base::tr("Compared with the baseline A:"), columns, 0) +
           comparison_text(*comparison, columns);
  }
  return out;
}

// A trace directory has no run.json, and a short run no machine.json.
std::string systrace_text(const model::SpeedReport& report, const std::vector<std::string>& operands) {
  std::string out = report::systrace_results(report);
  for (const std::string& operand : operands) {
    const auto dir = model::RunDir::find(operand);
    const auto run = dir ? model::load_run_manifest(dir->run_json())
                         : base::Result<model::RunManifest>(base::fail(dir.error()));
    const auto machine = run ? model::load_machine_history(dir->file(model::kMachineFile))
                             : base::Result<model::MachineHistory>(base::fail(run.error()));
    out += machine ? report::systrace_scheduler(*run, *machine) : std::string();
  }
  return out;
}

}  // namespace

int analyze_command(const Invocation& call) {
  const Settings& settings = call.words.settings;
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(analyze_options(), name), s.value); !checked) {
      return complain_usage(call, fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  const Setting* format = settings.find("format");
  const Setting* baseline = settings.find("baseline");
  const std::string name = format == nullptr ? "text" : format->value;
  if (baseline != nullptr && name == "systrace") {
    return complain_usage(
        call, base::cli_text("--format systrace cannot contain a comparison; leave out --baseline"));
  }
  std::vector<std::string> operands = call.words.operands;
  if (operands.empty()) {
    operands.emplace_back("latest");
  }
  auto speed =
      read_run_speed(operands, {.language = base::command_language(), .series = baseline != nullptr});
  if (!speed) {
    return complain(speed.error(), kExitFailure);
  }
  std::optional<model::Comparison> comparison;
  if (baseline != nullptr) {
    auto before = read_run_speed({baseline->value}, {.series = true});
    if (!before) {
      return complain(before.error(), kExitFailure);
    }
    before->samples.side.name = baseline->value;
    speed->samples.side.name = operands.front();
    const base::Speaking speaking(name == "text" ? base::command_language() : base::Language::english);
    comparison = report::compare(before->samples, speed->samples);
  }
  const int printed = print(name == "json"       ? json_text(speed->report, comparison)
                            : name == "systrace" ? systrace_text(speed->report, operands)
                                                 : people_text(speed->report, comparison));
  return printed != 0 ? printed : status_of(*speed);
}

}  // namespace xpurun::launcher
