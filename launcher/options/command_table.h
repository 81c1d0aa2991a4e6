// Name, arguments and description of each subcommand, as data for help, completions and argument splitting.
// The code of the subcommands is in commands/.
#pragma once

#include "launcher/options/option_table.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct Example {
  std::string_view command;
  std::string_view what;
};

// What completions offer for the words that are not options.
enum class Operands {
  none,
  directories,
  commands,
  shells,
  processes,  // ids of processes
  actions,    // the words of CommandSpec::actions
  program,    // a command with its arguments, which are not ours
};

struct CommandSpec {
  std::string_view name;
  std::string_view group;  // heading in the overview
  std::string_view summary;
  std::vector<std::string_view> synopsis;
  std::string_view description;
  std::span<const OptionSpec> options;
  Operands operands = Operands::none;
  // "list show=@ timing=off,light"; after "=" the words that may follow, "@": run directories
  std::string_view actions = {};
  std::vector<Example> examples;
  std::string_view manual;  // "xpurun-run(1)"
  int usage_status = 2;     // exit status for wrong usage
};

const std::vector<CommandSpec>& command_table();
// The commands about runs and hosts (command_table_tools.cpp).
std::vector<CommandSpec> tool_commands();
const CommandSpec* find_command(std::string_view name);

}  // namespace xpurun::launcher
