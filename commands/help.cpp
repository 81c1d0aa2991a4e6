// xpurun help and xpurun completions: texts made from the tables.
#include "commands/cli/help.h"

#include "commands/cli/completion.h"
#include "commands/commands.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "launcher/options/chosen_language.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

int help_command(const Invocation& call) {
  if (const auto checked = check_language(call); !checked) {
    return complain_usage(call, checked.error().what);
  }
  const base::Speaking speaking(chosen_language(call.words.settings, process_environment()));
  const size_t columns = help_columns(STDOUT_FILENO);
  const auto& names = call.words.operands;
  if (names.empty()) {
    return print(overview_help(columns));
  }
  if (names.size() > 1) {
    return complain_usage(call, base::cli_text("help explains one command at a time"));
  }
  if (const CommandSpec* command = find_command(names.front())) {
    return print(command_help(*command, columns));
  }
  std::vector<std::string> known;
  for (const CommandSpec& c : command_table()) {
    known.emplace_back(c.name);
  }
  std::string what = base::cli_text("there is no command {}", base::sanitize(names.front()));
  base::Error error = usage_error(std::move(what), call.command);
  if (const auto near = base::closest(names.front(), known)) {
    error.what += base::cli_text("; did you mean {}?", *near);
    error.hint = fmt::format("xpurun help {}", *near);
  }
  return complain(error, call.command.usage_status);
}

int completions_command(const Invocation& call) {
  const auto& shells = call.words.operands;
  if (const auto shell = shells.size() == 1 ? shell_named(shells.front()) : std::nullopt) {
    return print(completion_script(*shell));
  }
  return complain_usage(call, base::cli_text("completions needs the name of one shell: bash, zsh or fish"));
}

}  // namespace xpurun::launcher
