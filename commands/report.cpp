// xpurun report DIR... | --from FILE: rebuilds verdict and report of a run directory, or makes them from the
// run directories of several nodes, or from a directory of Flight Recorder dumps. The supervisor runs this
// command with --quiet --json, which prints the verdict before anything is written, so that the supervisor
// itself parses no large or hostile files.
#include "commands/commands.h"
#include "commands/sharing.h"
#include "common/base/ascii_case.h"
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/os/random.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "common/model/json/json_text.h"
#include "common/model/language/verdict_translation.h"
#include "common/model/run_manifest.h"
#include "launcher/http/page_server.h"
#include "launcher/options/chosen_language.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "report/build/build.h"
#include "report/build/flight_report.h"
#include "report/render/markdown.h"
#include "report/render/parts/embed.h"
#include "report/render/terminal.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>
#include <vector>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLargestPage = size_t{64} << 20;
constexpr int kReportPort = 18890;

// Decides as setlocale(3) does; a pipe gets the same encoding as a terminal.
report::Glyphs glyphs_of_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != 0) {
      const std::string lower = base::lower(value);
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

base::Language language_of(const Invocation& call) {
  return chosen_language(call.words.settings, process_environment());
}

enum class Format { text, json, markdown };

Format format_of(const Invocation& call) {
  const Setting* format = call.words.settings.find("format");
  if (call.words.settings.has("json") || (format != nullptr && format->value == "json")) {
    return Format::json;
  }
  return format != nullptr && format->value == "markdown" ? Format::markdown : Format::text;
}

int port_of(const Invocation& call) {
  const Setting* port = call.words.settings.find("port");
  return port == nullptr ? kReportPort : static_cast<int>(base::parse_int(port->value).value_or(kReportPort));
}

// Until it is killed; returns if it cannot listen.
int serve_report(const std::string& page, int port) {
  auto token = base::random_token();
  if (!token) {
    return complain(token.error(), kExitFailure);
  }
  auto loop = EventLoop::create();
  if (!loop) {
    return complain(loop.error(), kExitFailure);
  }
  PageServer server(*loop, page, std::move(*token));
  if (const auto listening = server.listen(port); !listening) {
    base::Error error = listening.error();
    error.hint = "choose another port with --port PORT";
    return complain(error, kExitFailure);
  }
  const int got = server.port();
  (void)print(fmt::format(
      "\nreport: {}\n{}from another machine: ssh -L {}:127.0.0.1:{} {}, then open the same address\n"
      "Ctrl-C ends\n",
      server.url(), got == port ? "" : fmt::format("(port {} is taken)\n", port), got, got,
      base::host_name()));
  const auto ran = loop->run();
  return ran ? 0 : complain(ran.error(), kExitFailure);
}

int print_text(const base::Result<std::string>& text, const std::string& end = {}) {
  return text ? print(*text + end) : complain(text.error(), kExitFailure);
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
  const base::Speaking speaking(language_of(call));
  const auto text = report::terminal_text(*json, look_of_stdout());
  if (!text || call.words.settings.has("quiet")) {
    return text ? 0 : complain(text.error(), kExitFailure);
  }
  const Format format = format_of(call);
  const int shown = format == Format::json       ? print(*json)
                    : format == Format::markdown ? print_text(report::markdown_text(*json))
                                                 : print(*text);
  return shown == 0 && call.words.settings.has("serve") ? serve_report(path, port_of(call)) : shown;
}

int show(const Invocation& call, const model::RunDir& dir, const report::BuildResult& built) {
  for (const std::string& note : built.notes) {
    base::write_stderr(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
  }
  const Format format = format_of(call);
  if (format == Format::json) {
    return print(model::document_text(built.verdict, 2) + "\n");
  }
  if (call.words.settings.has("verdict-only") || call.words.settings.has("steps-only")) {
    return print(built.verdict.sentence + "\n");
  }
  const auto json = built.spoken_report.empty() ? base::read_regular_file(dir.report_json())
                                                : base::Result<std::string>(built.spoken_report);
  if (!json) {
    return complain(json.error(), kExitFailure);
  }
  const base::Speaking speaking(language_of(call));
  return format == Format::markdown
             ? print_text(report::markdown_text(*json))
             : print_text(report::terminal_text(*json, look_of_stdout()),
                          base::tr("\nopen {}\n", base::shell_quote(dir.report_html())));
}

// For the supervisor, which tells the verdict in the language of its terminal.
void print_verdict(const model::Verdict& english, const model::Verdict& spoken, base::Language language) {
  Json j = to_json(english);
  if (language != base::Language::english) {
    j["translation"] = translation_json(spoken, language);
  }
  (void)print(model::json_text(j) + "\n");
}

void print_verdict_first(const Invocation& call, report::BuildOptions& options) {
  if (call.words.settings.has("quiet") && call.words.settings.has("json")) {
    options.on_verdict = [language = options.language](const auto& english, const auto& spoken) {
      print_verdict(english, spoken, language);
    };
  }
}

// The end of every way to a report.
int finish(const Invocation& call, const model::RunDir& dir, const report::BuildResult& built) {
  const Setting* share = call.words.settings.find("share");
  if (share != nullptr && share->value == "group") {
    if (const auto shared = share_with_group(dir, built.files); !shared) {
      return complain(shared.error(), kExitFailure);
    }
    if (const std::string warning = unreachable_for_group(dir.path()); !warning.empty()) {
      base::write_stderr(fmt::format("xpurun: note: {}\n", warning));
    }
  }
  const int shown = call.words.settings.has("quiet") ? 0 : show(call, dir, built);
  if (shown != 0 || !call.words.settings.has("serve")) {
    return shown;
  }
  return serve_report(dir.report_html(), port_of(call));
}

// PyTorch's Flight Recorder dumps, copied together from the nodes of a job; or a file of NCCL's RAS.
int flight_report(const Invocation& call, const std::string& dumps, const Setting* out) {
  std::error_code ec;
  const std::string beside =
      std::filesystem::is_directory(dumps, ec) ? dumps : std::filesystem::path(dumps).parent_path().string();
  const model::RunDir dir(out != nullptr ? out->value : (beside.empty() ? "." : beside) + "/xpurun-report");
  report::BuildOptions options{.language = language_of(call)};
  print_verdict_first(call, options);
  const auto built = report::build_flight_report(dumps, dir.path(), options);
  if (!built) {
    base::Error error = built.error();
    if (error.hint.empty() && error.sys_errno != 0) {
      error.hint = "name a directory for the report with --out DIR";
    }
    return complain(error, kExitFailure);
  }
  return finish(call, dir, *built);
}

report::BuildOptions options_of(const Invocation& call) {
  report::BuildOptions options{.language = language_of(call)};
  if (const Setting* source = call.words.settings.find("source")) {
    options.source = source->value == "off" ? report::SourceLines::none : report::SourceLines::read;
  }
  options.verdict_only = call.words.settings.has("verdict-only");
  options.steps_only = call.words.settings.has("steps-only");
  print_verdict_first(call, options);
  return options;
}

int run_report(const Invocation& call, const model::RunDir& dir) {
  const auto built = report::build_report(dir, options_of(call));
  if (!built) {
    base::Error error = built.error();
    if (error.hint.empty() && (error.sys_errno == EACCES || error.sys_errno == EROFS)) {
      // Somebody else's run, or an archive.
      error.hint =
          base::file_exists(dir.report_html())
              ? fmt::format("xpurun report --from {}", base::shell_quote(dir.report_html()))
              : fmt::format("cp -r {} /tmp/ and xpurun report of the copy", base::shell_quote(dir.path()));
    }
    return complain(error, kExitFailure);
  }
  const int status = finish(call, dir, *built);
  return status != 0 || model::load_run_manifest(dir.run_json()) ? status : kExitFailure;
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
  return finish(call, to, *built);
}

}  // namespace

int report_command(const Invocation& call) {
  for (const OptionSpec& option : report_options()) {
    const Setting* setting = call.words.settings.find(option.name);
    if (const auto checked = setting == nullptr ? base::Status() : check_value(option, setting->value);
        !checked) {
      return complain_usage(call, fmt::format("--{}: {}", option.name, checked.error().what));
    }
  }
  const auto& operands = call.words.operands;
  if (const Setting* from = call.words.settings.find("from")) {
    return operands.empty()
               ? from_page(call, from->value)
               : complain_usage(call, base::cli_text("report takes --from or a run directory, not both"));
  }
  const Setting* out = call.words.settings.find("out");
  if (operands.size() == 1 &&
      (report::is_flight_directory(operands.front()) || report::is_ras_file(operands.front()))) {
    return flight_report(call, operands.front(), out);
  }
  if (operands.empty()) {
    return complain_usage(call, base::cli_text("report needs a run directory, or latest"));
  }
  if (call.words.settings.has("verdict-only") && call.words.settings.has("serve")) {
    return complain_usage(call, base::cli_text("--verdict-only makes no page for --serve"));
  }
  if (operands.size() == 1 && out != nullptr) {
    return complain_usage(call,
                          base::cli_text("--out needs a directory of Flight Recorder dumps or several run "
                                         "directories; the report of one run is in its directory"));
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
