// Advice for a command line that is probably a mistake: why the command cannot be run, and what was perhaps
// meant.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// Adds cause and hint to an error of resolve_program(argv[0]): a directory, a script without its interpreter,
// a quoted command line, an option of torchrun, a misspelt program or subcommand. Reads the directories of
// PATH.
base::Error explain_failure(base::Error error, const std::vector<std::string>& argv);

// The first word of `argv` behind the program that is an option of `xpurun run`, or "". Not reported: options
// of one word and torchrun's options, which other programs have too, and everything behind "--".
std::string misplaced_option(const std::vector<std::string>& argv);

// "--nproc_per_node=2": an option of torchrun that the user gave to xpurun, or ran as a program.
bool is_torchrun_option(std::string_view word);

}  // namespace xpurun::launcher
