// Finds where xpurun's arguments end and the command begins, from the option table alone. No parser of xpurun
// ever sees the command's arguments. Pure.
#pragma once

#include "common/base/result.h"
#include "launcher/options/command_table.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct ArgvSplit {
  const CommandSpec* command = nullptr;  // null: nothing was given, not even an option
  // xpurun's options in long form, each one word with its value ("--out=dir"), and the operands of commands
  // other than run. One word, because Boost takes the value of "--name --" for the end of the options.
  std::vector<std::string> own;
  std::vector<std::string> child;  // commands about a program: its argv, untouched; may be empty
};

// Wrong usage: the command that was meant (for the exit status) and the error to print.
struct UsageError {
  const CommandSpec* command;
  base::Error error;
};

// `words` is argv without argv[0].
tl::expected<ArgvSplit, UsageError> split_argv(const std::vector<std::string>& words);

// "unknown option --foo; did you mean --food?" with the help command as hint and id E-USAGE.
base::Error usage_error(std::string what, const CommandSpec& command);

}  // namespace xpurun::launcher
