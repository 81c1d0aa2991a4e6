// xpurun runs: lists, shows and removes run directories.
#include "commands/runs/runs.h"

#include "commands/run_config.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// A wider table is harder to read.
constexpr size_t kWidestRuns = 160;
// In a pipe a run is a line with its whole verdict.
constexpr size_t kPipe = 100'000;

int list(const Invocation& call, const std::string& runs_dir) {
  const auto runs = list_runs(runs_dir);
  if (!runs) {
    return complain(runs.error(), kExitFailure);
  }
  if (call.words.settings.has("json")) {
    return print(runs_json(*runs));
  }
  if (runs->empty()) {
    return print(base::tr("no runs in {}", base::sanitize(runs_dir)) + "\n");
  }
  const size_t columns = base::terminal_columns(STDOUT_FILENO, kPipe);
  return print(runs_table(*runs, columns == kPipe ? kPipe : std::min(columns, kWidestRuns)));
}

// An id or `latest` below the runs directory, or any run directory.
base::Result<model::RunDir> find_run(const std::string& runs_dir, const std::string& name) {
  if (name.find('/') == std::string::npos) {
    if (auto below = model::RunDir::find(runs_dir + "/" + name)) {
      return below;
    }
  }
  if (name == "latest") {
    return base::fail(base::Error{.what = base::cli_text("no run in {}", base::sanitize(runs_dir)),
                                  .id = "E-NO-RUN",
                                  .hint = "xpurun runs --runs-dir DIR"});
  }
  return model::RunDir::find(name);
}

int show(const Invocation& call, const std::string& runs_dir, const std::string& name) {
  const auto dir = find_run(runs_dir, name);
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  if (call.words.settings.has("json")) {
    const auto text = base::read_regular_file(dir->run_json());
    return text ? print(*text + "\n") : complain(text.error(), kExitFailure);
  }
  const auto run = read_run(dir->path());
  return run ? print(run_details(*run, std::min(base::terminal_columns(STDOUT_FILENO), kWidestRuns)))
             : complain(run.error(), kExitFailure);
}

// --runs-dir here, else where `xpurun run` would put them.
base::Result<std::string> runs_directory(const Invocation& call) {
  if (const Setting* given = call.words.settings.find("runs-dir")) {
    return given->value;
  }
  XPURUN_TRY_ASSIGN(const RunConfig config, run_config());
  const Setting* set = config.settings.find("runs-dir");
  return set != nullptr ? set->value : std::string("xpurun-runs");
}

}  // namespace

int runs_command(const Invocation& call) {
  for (const auto& [name, setting] : call.words.settings.all()) {
    if (auto checked = check_value(*find_option(runs_options(), name), setting.value); !checked) {
      return complain_usage(call, fmt::format("--{}: {}", name, checked.error().what));
    }
  }
  const bool json = call.words.settings.has("json");
  const base::Speaking speaking(json ? base::Language::english : base::command_language());
  const auto runs_dir = runs_directory(call);
  if (!runs_dir) {
    return complain(runs_dir.error(), kExitFailure);
  }
  const auto& words = call.words.operands;
  const std::string action = words.empty() ? "list" : words.front();
  if (action == "show" && words.size() <= 2) {
    return show(call, *runs_dir, words.size() == 2 ? words[1] : "latest");
  }
  if (action == "list" && words.size() <= 1) {
    return list(call, *runs_dir);
  }
  if (action == "prune" && words.size() == 1) {
    return prune_runs(call, *runs_dir);
  }
  if (action == "list" || action == "show" || action == "prune") {
    return complain_usage(call, base::cli_text("runs {} has too many arguments", action));
  }
  std::string what = base::cli_text("runs can list, show and prune, not {}", base::sanitize(action));
  const bool removes = action == "rm" || action == "remove" || action == "delete" || action == "clean";
  const std::optional<std::string> near =
      removes ? std::optional<std::string>("prune") : base::closest(action, {"list", "show", "prune"});
  if (near) {
    what += base::cli_text("; did you mean {}?", *near);
  }
  return complain_usage(call, std::move(what));
}

}  // namespace xpurun::launcher
