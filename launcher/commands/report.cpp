// xpurun report DIR... | --from FILE: rebuilds verdict and report of a run directory, or makes them from the
// run directories of several nodes, or from a directory of Flight Recorder dumps. The supervisor runs this
// command with --quiet --json, which prints the verdict before anything is written, so that the supervisor
// itself parses no large or hostile files.
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "launcher/commands/commands.h"
#include "launcher/options/exit_status.h"
#include "report/build/build.h"
#include "report/build/flight_report.h"
#include "report/render/embed.h"
#include "report/render/terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <unistd.h>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr size_t kLargestPage = size_t{64} << 20;

// Decides as setlocale(3) does; a pipe gets the same encoding as a terminal.
report::Glyphs glyphs_of_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) {
      std::string lower(value);
      std::transform(lower.begin(), lower.end(), lower.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos
                 ? report::Glyphs::utf8
                 : report::Glyphs::ascii;
    }
  }
  return report::Glyphs::ascii;
}

report::TerminalLook look_of_stdout() {
  return {.columns = std::min<size_t>(base::terminal_columns(STDOUT_FILENO), 120),
          .ink = base::colour_allowed(STDOUT_FILENO) ? report::Ink::coloured : report::Ink::plain,
          .glyphs = glyphs_of_locale()};
}

int from_page(const Invocation& call, const std::string& path) {
  const auto page = base::read_file(path, kLargestPage);
  if (!page) {
    return complain(page.error(), kExitFailure);
  }
  const auto json = report::read_data_block(*page, report::kReportDataId);
  if (!json) {
    return complain(json.error(), kExitFailure);
  }
  const auto text = report::terminal_text(*json, look_of_stdout());
  if (!text) {
    return complain(text.error(), kExitFailure);
  }
  return call.words.settings.has("quiet") ? 0 : call.words.settings.has("json") ? print(*json) : print(*text);
}

int show(const Invocation& call, const model::RunDir& dir, const report::BuildResult& built) {
  for (const std::string& note : built.notes) {
    base::tell(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
  }
  if (call.words.settings.has("json")) {
    using Json = nlohmann::ordered_json;
    return print(to_json(built.verdict).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  const auto json = base::read_regular_file(dir.report_json());
  if (!json) {
    return complain(json.error(), kExitFailure);
  }
  const auto text = report::terminal_text(*json, look_of_stdout());
  if (!text) {
    return complain(text.error(), kExitFailure);
  }
  return print(*text + fmt::format("\nopen {}\n", base::shell_quote(dir.report_html())));
}

void print_verdict(const model::Verdict& verdict) {
  using Json = nlohmann::ordered_json;
  (void)print(to_json(verdict).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

// PyTorch's Flight Recorder dumps, copied together from the nodes of a job.
int flight_report(const Invocation& call, const std::string& dumps, const Setting* out) {
  const bool quiet = call.words.settings.has("quiet");
  const model::RunDir dir(out != nullptr ? out->value : dumps + "/xpurun-report");
  report::BuildOptions options;
  if (quiet && call.words.settings.has("json")) {
    options.on_verdict = print_verdict;
  }
  const auto built = report::build_flight_report(dumps, dir.path(), options);
  if (!built) {
    base::Error error = built.error();
    if (error.hint.empty() && error.sys_errno != 0) {
      error.hint = "name a directory for the report with --out DIR";
    }
    return complain(error, kExitFailure);
  }
  return quiet ? 0 : show(call, dir, *built);
}

report::BuildOptions options_of(const Invocation& call) {
  report::BuildOptions options{.source_lines = call.words.settings.has("source")};
  if (call.words.settings.has("quiet") && call.words.settings.has("json")) {
    options.on_verdict = print_verdict;
  }
  return options;
}

int run_report(const Invocation& call, const model::RunDir& dir) {
  const auto built = report::build_report(dir, options_of(call));
  if (!built) {
    return complain(built.error(), kExitFailure);
  }
  return call.words.settings.has("quiet") ? 0 : show(call, dir, *built);
}

// Run directories of the nodes of one job.
int job_report(const Invocation& call, const std::vector<model::RunDir>& dirs, const Setting* out) {
  const model::RunDir to(out != nullptr ? out->value : dirs.front().file("xpurun-report"));
  const auto built = report::build_report(dirs, to, options_of(call));
  if (!built) {
    base::Error error = built.error();
    if (error.hint.empty() && error.sys_errno != 0) {
      error.hint = "name a directory for the report with --out DIR";
    }
    return complain(error, kExitFailure);
  }
  return call.words.settings.has("quiet") ? 0 : show(call, to, *built);
}

}  // namespace

int report_command(const Invocation& call) {
  const auto& operands = call.words.operands;
  if (const Setting* from = call.words.settings.find("from")) {
    return operands.empty() ? from_page(call, from->value)
                            : complain_usage(call, "report takes --from or a run directory, not both");
  }
  const Setting* out = call.words.settings.find("out");
  if (operands.size() == 1 && report::is_flight_directory(operands.front())) {
    return flight_report(call, operands.front(), out);
  }
  if (operands.empty()) {
    return complain_usage(call, "report needs a run directory, or latest");
  }
  if (operands.size() == 1 && out != nullptr) {
    return complain_usage(
        call,
        "--out is for a directory of Flight Recorder dumps and for several run directories; a run "
        "directory holds its report");
  }
  std::vector<model::RunDir> dirs;
  for (const std::string& operand : operands) {
    auto dir = model::RunDir::find(operand);
    if (!dir) {
      return complain(dir.error(), kExitFailure);
    }
    dirs.push_back(std::move(*dir));
  }
  return dirs.size() == 1 ? run_report(call, dirs.front()) : job_report(call, dirs, out);
}

}  // namespace xpurun::launcher
