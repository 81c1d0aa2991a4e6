// xpurun pipeline DIR...: jobs of the stages of a training pipeline, their bubbles, the critical stage.
#include "commands/analyze/table_text.h"
#include "commands/commands.h"
#include "commands/run_paths.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/pipeline/files.h"
#include "report/pipeline/paddle/trace.h"
#include "report/pipeline/view/gantt.h"
#include "report/pipeline/view/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kShownStages = 64;
constexpr size_t kShownSteps = 8;
constexpr size_t kMostPipelineProblems = 20;

std::string pipeline_value_of(const Invocation& call, std::string_view name) {
  const Setting* setting = call.words.settings.find(name);
  return setting == nullptr ? std::string() : setting->value;
}

std::vector<std::string> list_of(const Invocation& call, std::string_view name) {
  std::vector<std::string> out;
  const std::string value = pipeline_value_of(call, name);
  for (const std::string_view word : base::split(value, ',')) {
    if (!word.empty()) {
      out.emplace_back(word);
    }
  }
  return out;
}

base::Result<report::PipelineOptions> read_pipeline_options(const Invocation& call) {
  for (const auto& [name, s] : call.words.settings.all()) {
    if (const auto checked = check_value(*find_option(pipeline_options(), name), s.value); !checked) {
      return base::fail(fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  report::PipelineOptions out{
      .functions = {.forward = list_of(call, "forward"), .backward = list_of(call, "backward")},
      .evidence = report::Evidence::not_needed};
  if (const std::string ranks = pipeline_value_of(call, "ranks"); !ranks.empty()) {
    out.ranks = model::RankSet::parse(ranks);
    if (!out.ranks) {
      return base::fail(
          base::cli_text("--ranks: \"{}\" is not a list of ranks such as 0-7,12", base::sanitize(ranks)));
    }
  }
  if (const std::string groups = pipeline_value_of(call, "groups"); !groups.empty()) {
    XPURUN_TRY_ASSIGN(out.groups, report::GroupOrder::read(groups));
    if (!out.groups->has("pp")) {
      return base::fail(base::cli_text("--groups: type pp is missing"));
    }
  }
  return out;
}

// Numbers of steps.
struct WantedSteps {
  int64_t first = 0;
  int64_t last = 0;
};

base::Result<std::optional<WantedSteps>> read_steps(const std::string& text) {
  if (text.empty()) {
    return std::optional<WantedSteps>();
  }
  const std::string_view words = text;
  const size_t dash = words.find('-');
  const auto first = base::parse_int(words.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : base::parse_int(words.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first) {
    return base::fail(
        base::cli_text("--steps: \"{}\" is not a range of steps such as 10-12", base::sanitize(text)));
  }
  return std::optional<WantedSteps>({*first, *last});
}

// Of the slowest pipeline.
base::Result<std::string> svg_text(const model::PipelineReport& report,
                                   const std::optional<WantedSteps>& wanted) {
  const auto slowest = std::max_element(report.pipelines.begin(), report.pipelines.end(),
                                        [](const auto& a, const auto& b) { return a.step_s < b.step_s; });
  report::StepRange steps = report::shown_steps(*slowest);
  if (wanted) {
    const auto& all = slowest->steps;
    const auto before = [&](int64_t number) {
      return static_cast<size_t>(std::count_if(
          all.begin(), all.end(), [number](const model::PipelineStep& s) { return s.number < number; }));
    };
    if (before(wanted->first) == before(wanted->last + 1)) {
      return base::fail(
          all.empty() ? base::cli_text("no step was recorded")
                      : base::cli_text("the steps are {} to {}", all.front().number, all.back().number));
    }
    steps = {before(wanted->first), before(wanted->last + 1) - 1};
  }
  std::string svg = report::gantt_svg(*slowest, steps, report::GanttUse::file);
  return svg.empty() ? base::Result<std::string>(base::fail(base::cli_text("these steps have no job"))) : svg;
}

std::string people_text(const model::PipelineReport& report, size_t columns) {
  std::string sentence = base::sanitize(report.sentence) + ".";
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  std::string out = text_block(sentence, columns, 0);
  for (const model::Pipeline& pipeline : report.pipelines) {
    out += '\n' + table_text(report::stage_table(pipeline, kShownStages), columns);
    out += '\n' + table_text(report::step_table(pipeline, kShownSteps), columns);
  }
  for (const std::string& note : report.notes) {
    out += '\n' + text_block("note: " + base::sanitize(note), columns, 0);
  }
  return out;
}

base::Status write_paddle(const model::PipelineReport& report, const std::string& directory,
                          report::JobNames names) {
  XPURUN_TRY(base::make_dirs(directory));
  for (const auto& [name, form] : {std::pair(report::kPaddleChromeFile, report::PaddleTrace::chrome),
                                   std::pair(report::kPaddlePerfettoFile, report::PaddleTrace::perfetto)}) {
    XPURUN_TRY_ASSIGN(
        report::OutputFile file,
        report::OutputFile::create(fmt::format("{}/{}", directory, name), report::Compression::none));
    report::write_paddle_trace(file, report, form, names);
    XPURUN_TRY(file.finish());
  }
  return {};
}

int tell_problems(const std::vector<base::Error>& problems) {
  for (size_t i = 0; i < problems.size() && i < kMostPipelineProblems; ++i) {
    (void)complain(problems[i], kExitFailure);
  }
  return problems.empty() ? 0 : kExitFailure;
}

base::Error no_pipeline(const report::PipelineOfRun& run) {
  return {.what = run.ranks == 0
                      ? base::cli_text("no rank has forward and backward jobs of a pipeline")
                      : base::cli_text("no two ranks of one pipeline have forward and backward jobs"),
          .id = "E-NO-DATA",
          .cause = base::cli_text(
              "jobs come from marks of the program, from functions that --trace-python named, or from "
              "sends and receives of torch.distributed between backward passes"),
          .hint =
              "name the functions to --trace-python when the job runs; xpurun-pipeline(1) lists those "
              "of known frameworks"};
}

}  // namespace

int pipeline_command(const Invocation& call) {
  const auto options = read_pipeline_options(call);
  if (!options) {
    return complain_usage(call, options.error().what);
  }
  const auto steps = read_steps(pipeline_value_of(call, "steps"));
  if (!steps) {
    return complain_usage(call, steps.error().what);
  }
  const std::string format = pipeline_value_of(call, "format");
  if (*steps && format != "svg") {
    return complain_usage(call, base::cli_text("--steps needs --format svg"));
  }
  const bool durations = call.words.settings.has("durations");
  if (durations && format != "paddle") {
    return complain_usage(call, base::cli_text("--durations needs --format paddle"));
  }
  const auto found = run_paths(call.words.operands);
  if (!found) {
    return complain(found.error(), kExitFailure);
  }
  const std::vector<std::string>& operands = *found;
  const report::PipelineOfRun run = report::read_pipeline(operands, *options);
  const int status = tell_problems(run.problems);
  if (!run.report) {
    return complain(no_pipeline(run), kExitFailure);
  }
  const std::string out = pipeline_value_of(call, "out");
  if (format == "paddle") {
    const std::string directory = out.empty() ? operands.front() : out;
    const auto written = write_paddle(*run.report, directory,
                                      durations ? report::JobNames::with_durations : report::JobNames::plain);
    if (!written) {
      return complain(written.error(), kExitFailure);
    }
    const int printed = print(fmt::format("wrote {} and {} in {}\n", report::kPaddleChromeFile,
                                          report::kPaddlePerfettoFile, base::shell_quote(directory)));
    return status != 0 ? status : printed;
  }
  base::Result<std::string> text = format == "json"  ? model::document_text(*run.report, 2) + "\n"
                                   : format == "svg" ? svg_text(*run.report, *steps)
                                                     : people_text(*run.report, help_columns(STDOUT_FILENO));
  if (!text) {
    return complain(text.error(), kExitFailure);
  }
  if (!out.empty()) {
    const auto written = base::write_file_atomic(out, *text);
    return written ? status : complain(written.error(), kExitFailure);
  }
  const int printed = print(*text);
  return status != 0 ? status : printed;
}

}  // namespace xpurun::launcher
