// xpurun timeline DIR...: the timed calls and spans of all ranks as one trace.
#include "report/timeline/timeline.h"

#include "commands/commands.h"
#include "commands/run_paths.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "report/pipeline/files.h"
#include "report/pipeline/finder.h"
#include "report/pipeline/paddle/log_files.h"
#include "report/pipeline/view/trace_tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostProblems = 20;

std::string value_of(const Invocation& call, std::string_view name) {
  const Setting* setting = call.words.settings.find(name);
  return setting == nullptr ? std::string() : setting->value;
}

// Seconds without a unit; empty text is 0.
std::optional<double> parse_seconds(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  const bool whole = error == std::errc() && end == text.data() + text.size() && out >= 0 && out < 1e9;
  return text.empty() ? std::optional(0.0) : whole ? std::optional(out) : std::nullopt;
}

base::Status read_time(const std::string& text, report::TimelineOptions& options) {
  const size_t colon = text.find(':');
  const auto from = parse_seconds(std::string_view(text).substr(0, colon));
  const auto until =
      colon == std::string::npos ? std::nullopt : parse_seconds(std::string_view(text).substr(colon + 1));
  if (!from || !until || (*until > 0 && *until <= *from)) {
    return base::fail(
        base::cli_text("--time: \"{}\" is not an interval in seconds such as 10:12.5", base::sanitize(text)));
  }
  options.from_s = *from;
  options.until_s = *until;
  return {};
}

base::Status read_only(const std::string& text, report::TimelineOptions& options) {
  for (const std::string_view word : base::split(text, ',')) {
    const auto category = model::from_name<report::Category>(word);
    if (!category) {
      return base::fail(base::cli_text("--only: \"{}\" is not one of {}", base::sanitize(word),
                                       fmt::join(model::kNames<report::Category>, ", ")));
    }
    options.only.insert(*category);
  }
  return {};
}

base::Result<report::TimelineOptions> read_timeline_options(const Invocation& call) {
  for (const OptionSpec& option : timeline_options()) {
    const Setting* setting = call.words.settings.find(option.name);
    if (const auto checked = setting == nullptr ? base::Status() : check_value(option, setting->value);
        !checked) {
      return base::fail(fmt::format("--{}: {}", option.name, checked.error().what));
    }
  }
  report::TimelineOptions out;
  const std::string format = value_of(call, "format");
  out.format = format == "chrome"      ? report::TimelineFormat::chrome
               : format == "xpu_timer" ? report::TimelineFormat::xpu_timer
                                       : report::TimelineFormat::perfetto;
  if (call.words.settings.has("compress")) {
    out.compression = report::Compression::gzip;
  }
  if (const std::string ranks = value_of(call, "ranks"); !ranks.empty()) {
    out.ranks = model::RankSet::parse(ranks);
    if (!out.ranks) {
      return base::fail(
          base::cli_text("--ranks: \"{}\" is not a list of ranks such as 0-7,12", base::sanitize(ranks)));
    }
  }
  if (const std::string time = value_of(call, "time"); !time.empty()) {
    XPURUN_TRY(read_time(time, out));
  }
  if (const std::string only = value_of(call, "only"); !only.empty()) {
    XPURUN_TRY(read_only(only, out));
  }
  if (const std::string groups = value_of(call, "groups"); !groups.empty()) {
    XPURUN_TRY_ASSIGN(out.groups, report::GroupOrder::read(groups));
  }
  out.first_group = call.words.settings.has("first-group");
  if (out.first_group && !out.groups) {
    return base::fail(base::cli_text("--first-group needs --groups"));
  }
  return out;
}

// In the run directory if there is exactly one operand and it is one, else here.
std::string default_out(const std::vector<std::string>& operands, const report::TimelineOptions& options) {
  const std::string name = options.format == report::TimelineFormat::chrome      ? "chrome-traces"
                           : options.format == report::TimelineFormat::xpu_timer ? "xpu_timer-traces"
                           : options.compression == report::Compression::gzip ? "timeline.perfetto-trace.gz"
                                                                              : "timeline.perfetto-trace";
  std::error_code ec;
  const bool in_run = operands.size() == 1 && std::filesystem::exists(operands.front() + "/run.json", ec);
  return in_run ? model::RunDir(operands.front()).file(name) : name;
}

// The pipelines of the job as rows of their own.
class PipelineExtra : public report::TimelineExtra {
 public:
  // `logs`: pipelines of logs of Paddle, which hold no calls.
  PipelineExtra(const report::TimelineOptions& options, std::optional<model::PipelineReport> logs)
      : finder_({.groups = options.groups}), logs_(std::move(logs)) {}

  void add(const report::Activity& activity) override { finder_.add(activity); }
  std::vector<report::TimelineRows> rows(const report::JobClocks& clocks) override {
    const auto found = finder_.finish([&](const std::string& host) { return clocks.offset_ns(host); });
    auto out = found ? report::pipeline_rows(*found) : std::vector<report::TimelineRows>();
    if (logs_) {
      auto more = report::pipeline_rows(*logs_);
      std::move(more.begin(), more.end(), std::back_inserter(out));
    }
    return out;
  }

 private:
  report::PipelineFinder finder_;
  std::optional<model::PipelineReport> logs_;
};

// Moves the directories with logs of Paddle out of the operands.
std::vector<std::string> take_paddle_logs(std::vector<std::string>& operands) {
  const auto logs = std::stable_partition(operands.begin(), operands.end(), [](const std::string& operand) {
    return !report::holds_paddle_logs(operand);
  });
  std::vector<std::string> out(std::make_move_iterator(logs), std::make_move_iterator(operands.end()));
  operands.erase(logs, operands.end());
  return out;
}

std::string clocks_text(const report::JobClocks::Residual& clocks) {
  if (clocks.collectives == 0) {
    return "clocks: as the hosts have them; no collective with GPU times on several ranks\n";
  }
  std::string out =
      fmt::format("clocks: ends of {} collectives differ by {:.1f} us (median), {:.1f} us (worst)\n",
                  clocks.collectives, clocks.median_us, clocks.worst_us);
  for (const auto& [host, offset] : clocks.offsets_ns) {
    if (offset != 0) {
      out += fmt::format("  {}: {:+.1f} us\n", base::sanitize(host), static_cast<double>(offset) / 1e3);
    }
  }
  for (const std::string& host : clocks.unaligned) {
    out += fmt::format("  {}: no common collective, clock as it is\n", base::sanitize(host));
  }
  return out;
}

std::string summary(const report::TimelineResult& result) {
  std::string out =
      fmt::format("{} slices of {} {}, {}", result.counts.slices, result.processes,
                  result.processes == 1 ? "process" : "processes", base::human_size(result.bytes));
  out += result.lost == 0 ? "\n" : fmt::format("; {} events were lost during the run\n", result.lost);
  out += clocks_text(result.clocks);
  for (const auto& family : result.families) {
    out += fmt::format("groups of {}: {} ({}{})\n", family.name, family.groups.size(),
                       family.groups.front().brief(), family.groups.size() > 1 ? ", ..." : "");
  }
  for (size_t i = 0; i < std::min(result.missing.size(), kMostProblems); ++i) {
    out += fmt::format("missing: {}\n", result.missing[i]);
  }
  if (result.missing.size() > kMostProblems) {
    out += fmt::format("missing: {} more, in the metadata of the trace\n",
                       result.missing.size() - kMostProblems);
  }
  for (size_t i = 0; i < result.files.size() && i < 1; ++i) {
    out += result.files.size() == 1 ? fmt::format("\nwrote {}\n", base::shell_quote(result.files[i]))
                                    : fmt::format("\nwrote {} files, {} ...\n", result.files.size(),
                                                  base::shell_quote(result.files[i]));
  }
  return out;
}

}  // namespace

int timeline_command(const Invocation& call) {
  auto options = read_timeline_options(call);
  if (!options) {
    return complain_usage(call, options.error().what);
  }
  const auto found = run_paths(call.words.operands);
  if (!found) {
    return complain(found.error(), kExitFailure);
  }
  std::vector<std::string> operands = *found;
  const std::string out = value_of(call, "out");
  options->out = out.empty() ? default_out(operands, *options) : out;
  const bool to_stdout = options->out == "-";
  if (to_stdout && options->format != report::TimelineFormat::perfetto) {
    return complain_usage(call, base::cli_text("--format {} writes one file per rank into a directory",
                                               value_of(call, "format")));
  }
  if (options->format == report::TimelineFormat::xpu_timer && call.words.settings.has("compress")) {
    return complain_usage(call, base::cli_text("xpu_timer's programs read no compressed files"));
  }
  if (to_stdout && ::isatty(STDOUT_FILENO) != 0) {
    return complain_usage(
        call, base::cli_text("a trace cannot be printed on a terminal; name a file with -o FILE"));
  }
  const std::vector<std::string> logs = take_paddle_logs(operands);
  if (!logs.empty() && options->format != report::TimelineFormat::perfetto) {
    return complain_usage(call,
                          base::cli_text("logs of Paddle: --format paddle of xpurun pipeline writes JSON"));
  }
  report::PipelineOfRun jobs;
  if (!logs.empty()) {
    jobs = report::read_pipeline(logs, {.groups = options->groups, .ranks = options->ranks});
  }
  PipelineExtra pipelines(*options, std::move(jobs.report));
  options->extra = &pipelines;
  auto result = report::make_timeline(operands, *options);
  if (!result) {
    base::Error error = result.error();
    if (error.hint.empty()) {
      error.hint = error.sys_errno != 0 ? "choose another place with -o FILE" : "xpurun runs show";
    }
    return complain(error, kExitFailure);
  }
  std::move(jobs.problems.begin(), jobs.problems.end(), std::back_inserter(result->problems));
  for (size_t i = 0; i < result->problems.size() && i < kMostProblems; ++i) {
    (void)complain(result->problems[i], kExitFailure);
  }
  if (result->problems.size() > kMostProblems) {
    (void)complain({.what = base::cli_text("and {} more files", result->problems.size() - kMostProblems)},
                   kExitFailure);
  }
  const int status = result->problems.empty() ? 0 : kExitFailure;
  if (to_stdout || call.words.settings.has("quiet")) {
    return status;
  }
  const int printed = print(summary(*result) + (options->format == report::TimelineFormat::perfetto
                                                    ? "open the file at https://ui.perfetto.dev\n"
                                                    : ""));
  return status != 0 ? status : printed;
}

}  // namespace xpurun::launcher
