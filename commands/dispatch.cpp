#include "commands/dispatch.h"

#include "commands/cli/completion.h"
#include "commands/cli/help.h"
#include "commands/commands.h"
#include "common/base/output/progress.h"
#include "common/base/output/terminal.h"
#include "common/base/tr.h"
#include "launcher/evidence/clock_helper.h"
#include "launcher/evidence/evidence_helper.h"
#include "launcher/evidence/evidence_request.h"
#include "launcher/machine/machine_helper.h"
#include "launcher/options/chosen_language.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <span>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

struct Entry {
  std::string_view name;
  int (*run)(const Invocation&);
};

constexpr Entry kCommands[] = {
    {"run", run_command},
    {"attach", attach_command},
    {"now", now_command},
    {"report", report_command},
    {"stacks", stacks_command},
    {"analyze", analyze_command},
    {"diff", diff_command},
    {"timeline", timeline_command},
    {"pipeline", pipeline_command},
    {"query", query_command},
    {"record", record_command},
    {"capture", capture_command},
    {"top", top_command},
    {"ctl", ctl_command},
    {"nodes", nodes_command},
    {"runs", runs_command},
    {"doctor", doctor_command},
    {"selftest", selftest_command},
    {"env", env_command},
    {"events", events_command},
    {"replay", replay_command},
    {"memory", memory_command},
    {"help", help_command},
    {"version", version_command},
    {"completions", completions_command},
};

// `xpurun --help` is the overview, `xpurun run --help` everything about run.
bool names_command(const std::vector<std::string>& words, const CommandSpec& command) {
  for (const std::string& word : words) {
    if (word == command.name) {
      return true;
    }
    if (word == "--" || !word.starts_with("-")) {
      return false;
    }
  }
  return false;
}

int dispatch_or_throw(const std::vector<std::string>& typed) {
  const Settings language = typed_language(typed);
  base::set_command_language(chosen_language(language, process_environment()));
  const std::vector<std::string> words = without_language(typed);
  if (const Setting* lang = language.find("lang"); lang != nullptr && words.size() < typed.size()) {
    ::setenv("XPURUN_LANG", lang->value.c_str(), 1);  // for whatever asks for the language later
  }
  auto split = split_argv(words);
  if (!split) {
    return complain(split.error().error, split.error().command->usage_status);
  }
  if (split->command == nullptr) {
    const base::Speaking speaking(chosen_language({}, process_environment()));
    return print(overview_help(help_columns(STDOUT_FILENO)));
  }
  const CommandSpec& command = *split->command;
  auto parsed = parse_words(command, split->own);
  if (!parsed) {
    return complain(parsed.error(), command.usage_status);
  }
  const Invocation call{command, std::move(*parsed), std::move(split->child)};
  if (call.words.settings.has("help")) {
    const base::Speaking speaking(chosen_language(call.words.settings, process_environment()));
    const size_t columns = help_columns(STDOUT_FILENO);
    const bool overview = command.name == "run" && !names_command(words, command);
    return print(overview ? overview_help(columns) : command_help(command, columns));
  }
  if (command.name != "run" && command.name != "attach" && !call.words.settings.has("quiet")) {
    base::allow_progress(STDERR_FILENO);
  }
  for (const Entry& entry : kCommands) {
    if (entry.name == command.name) {
      return entry.run(call);
    }
  }
  return complain_usage(call, base::cli_text("{} cannot be run", command.name));
}

}  // namespace

int print(std::string_view text) {
  const auto written = base::put_out(text);
  if (!written && written.error().sys_errno != EPIPE) {
    return complain(base::Error(written.error()).context("standard output"), kExitFailure);
  }
  return 0;
}

int complain(const base::Error& error, int status) {
  base::write_stderr(base::to_text(error));
  return status;
}

base::Status check_language(const Invocation& call) {
  const Setting* lang = call.words.settings.find("lang");
  const OptionSpec* option = find_option(call.command.options, "lang");
  if (lang == nullptr || option == nullptr) {
    return {};
  }
  if (auto checked = check_value(*option, lang->value); !checked) {
    return base::fail(fmt::format("--lang: {}", checked.error().what));
  }
  return {};
}

int complain_usage(const Invocation& call, std::string what) {
  return complain(usage_error(std::move(what), call.command), call.command.usage_status);
}

int dispatch(const std::vector<std::string>& words) {
  try {
    // The supervisor starts itself in these roles; they are no commands for people.
    if (!words.empty() && words.front() == kEvidenceRole) {
      run_evidence_helper(words);
    }
    if (!words.empty() && words.front() == kClockRole) {
      run_clock_helper(words);
    }
    if (!words.empty() && words.front() == kWatchRole) {
      run_watch_helper(words);
    }
    if (!words.empty() && words.front() == kMachineRole) {
      run_machine_helper(words);
    }
    if (!words.empty() && words.front() == kCompleteRole) {
      return complete(std::span(words).subspan(1));
    }
    return dispatch_or_throw(words);
  } catch (const std::exception& e) {
    // Out of memory, or a bug: a library's exception that its wrapper let through.
    return complain({.what = base::cli_text("unexpected failure: {}", e.what()),
                     .id = "E-INTERNAL",
                     .hint = "report it with the command line and the output of `xpurun version`"},
                    kExitOwnFailure);
  }
}

}  // namespace xpurun::launcher
