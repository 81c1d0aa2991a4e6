// Help texts from the tables, wrapped to a width. Pure; golden-tested at 80 columns.
#pragma once

#include "launcher/options/command_table.h"

#include <string>

namespace xpurun::launcher {

// The output of `xpurun` without arguments: purpose, examples, commands, the most common options, further
// reading.
std::string overview_help(size_t columns);
std::string command_help(const CommandSpec& command, size_t columns);

// "-o, --out DIR", "    --no-report"
std::string option_term(const OptionSpec& o);

}  // namespace xpurun::launcher
