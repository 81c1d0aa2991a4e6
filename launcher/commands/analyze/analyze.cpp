// xpurun analyze DIR...: which rank is slow, since when and why, from the span files and event files of a
// run.
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "launcher/commands/analyze/analyze_text.h"
#include "launcher/commands/commands.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/build/speed_files.h"
#include "report/formats/systrace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

base::Result<report::JobRuns> read_runs(const std::vector<std::string>& operands) {
  std::vector<model::RunDir> dirs;
  for (const std::string& operand : operands) {
    XPURUN_TRY_ASSIGN(model::RunDir dir, model::RunDir::find(operand));
    dirs.push_back(std::move(dir));
  }
  return dirs.size() == 1 ? report::read_job(dirs.front()) : report::read_job(dirs);
}

}  // namespace

int analyze_command(const Invocation& call) {
  const Setting* format = call.words.settings.find("format");
  if (format != nullptr) {
    if (const auto checked = check_value(*find_option(analyze_options(), "format"), format->value);
        !checked) {
      return complain_usage(call, fmt::format("--format: {}", checked.error().what));
    }
  }
  std::vector<std::string> operands = call.words.operands;
  if (operands.empty()) {
    operands.emplace_back("latest");
  }
  const auto job = read_runs(operands);
  if (!job) {
    return complain(job.error(), kExitFailure);
  }
  const report::SpeedOfRun speed = report::read_speed(*job);
  for (const auto* notes : {&job->notes, &speed.notes}) {
    for (const std::string& note : *notes) {
      base::tell(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
    }
  }
  if (speed.ranks == 0) {
    return complain(
        {.what = "the run holds no spans and no timed calls",
         .id = "E-NO-DATA",
         .cause = "no rank was a Python process with torch, or xpurun's Python hooks and timing were off",
         .hint = "run the job without --no-python-hooks"},
        kExitFailure);
  }
  const std::string name = format == nullptr ? "text" : format->value;
  if (name == "json") {
    using Json = nlohmann::ordered_json;
    return print(to_json(speed.report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return print(name == "systrace" ? report::systrace_results(speed.report)
                                  : analysis_text(speed.report, help_columns(STDOUT_FILENO)));
}

}  // namespace xpurun::launcher
