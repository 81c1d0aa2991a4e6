// The completion scripts of the shells, each in a file of its own. For completion.cpp only.
#pragma once

#include "launcher/options/command_table.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// The words that a value may be: those of the option, and its default, so that no single word is offered as
// the only choice.
std::string value_words(const OptionSpec& o);

struct Action {
  std::string_view word;
  std::string next;        // words that may follow, with blanks between them
  bool then_runs = false;  // run directories may follow
};
// Of a command with Operands::actions.
std::vector<Action> actions_of(const CommandSpec& c);
std::string action_words(const CommandSpec& c);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace xpurun::launcher
