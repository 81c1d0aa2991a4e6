// Finds where our words end and the child's begin, from the option table alone. The child's words are never
// looked at: no parser of ours sees them. Pure.
#pragma once

#include "common/base/result.h"
#include "launcher/cli/command_table.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct ArgvSplit {
  const CommandSpec* command = nullptr;  // null: nothing was given, not even an option
  // Our options in long form, each one word with its value ("--out=dir"), and, but for run, operands. One
  // word, because Boost takes the value of "--name --" for the end of the options.
  std::vector<std::string> own;
  std::vector<std::string> child;  // commands about a program: its argv, untouched; may be empty
};

// Wrong usage: who was meant (for the exit status), and the error to print.
struct UsageError {
  const CommandSpec* command;
  base::Error error;
};

// `words` is argv without argv[0].
tl::expected<ArgvSplit, UsageError> split_argv(const std::vector<std::string>& words);

// "unknown option --foo; did you mean --food?" with the help command as hint and id E-USAGE.
base::Error usage_error(std::string what, const CommandSpec& command);

}  // namespace xpurun::launcher
