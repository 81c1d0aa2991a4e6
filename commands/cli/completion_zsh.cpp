#include "commands/cli/completion_shells.h"
#include "common/base/strings.h"
#include "launcher/options/command_table.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

// For a word inside single quotes inside _arguments, where ":" and brackets end a part.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == ':' || c == '[' || c == ']') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

std::string zsh_value_action(const OptionSpec& o) {
  switch (o.kind) {
    case ValueKind::directory:
      return o.words.empty() ? "_files -/" : "_xpurun_runs";
    case ValueKind::file:
      return "_files";
    case ValueKind::processes:
      return "_xpurun_pids";
    default:
      return value_words(o).empty() ? " " : fmt::format("({})", value_words(o));
  }
}

std::string option_specs(const CommandSpec& c) {
  std::string out;
  for (const OptionSpec& o : c.options) {
    const std::string what = escaped(o.help);
    const std::string value =
        takes_value(o) ? fmt::format(":{}:{}", o.metavar, zsh_value_action(o)) : std::string();
    const std::string eq = takes_value(o) ? "=" : "";
    const std::string_view repeat = o.kind == ValueKind::repeated ? "*" : "";
    out += fmt::format("    '{}{}{}[{}]{}'\n", repeat, flag(o), eq, what, value);
    if (o.short_name != 0) {
      const std::string plus = takes_value(o) ? "+" : "";
      out += fmt::format("    '{}-{}{}[{}]{}'\n", repeat, o.short_name, plus, what, value);
    }
  }
  return out;
}

std::string zsh_operands(const CommandSpec& c) {
  switch (c.operands) {
    case Operands::directories:
      return " '*:run:_xpurun_runs'";
    case Operands::commands:
      return " '1:command:_xpurun_commands'";
    case Operands::processes:
      return " '*:PID:_xpurun_pids'";
    case Operands::shells:
      return " '1:shell:(bash zsh fish)'";
    case Operands::actions:
      return fmt::format(" '1:action:({})' '*: :_xpurun_after_{}'", action_words(c), c.name);
    case Operands::program:
      return " '(-)1: :_command_names -e' '*:: :_xpurun_child'";
    case Operands::none:
      return "";
  }
  return "";
}

// What may follow the first operand.
std::string after_actions(const CommandSpec& c) {
  std::string out = fmt::format("_xpurun_after_{}() {{\n", c.name);
  for (const Action& action : actions_of(c)) {
    if (!action.next.empty()) {
      out += fmt::format("  if (( $words[(I){}] )); then {}; fi\n", action.word,
                         action.then_runs ? "_xpurun_runs" : "compadd " + action.next);
    }
  }
  return out + "}\n";
}

constexpr std::string_view kRuns = R"sh(_xpurun_runs() {
  local -a runs=(xpurun-runs/*/run.json(N:h:t))
  _alternative "runs:run:($runs)" 'directories:directory:_files -/'
}
)sh";

// With the command line of each, as the built-in completion of kill shows it.
constexpr std::string_view kPids = R"sh(_xpurun_pids() {
  local dir
  local -a words pids
  for dir in /proc/<1->(N/U); do
    words=("${(@0)$(<$dir/cmdline)}") 2>/dev/null
    [[ ${words[1]:t} == python* ]] && pids+=("${dir:t}:${(j: :)words}")
  done
  _describe -t processes process pids
}
)sh";

}  // namespace

std::string zsh_completion() {
  std::string out = "#compdef xpurun\n# zsh completion for xpurun, made from its option table\n";
  std::string commands;
  std::string rest;
  out += kRuns;
  out += kPids;
  for (const CommandSpec& c : command_table()) {
    out += fmt::format("_xpurun_options_{}=(\n{})\n", c.name, option_specs(c));
    commands += fmt::format("    '{}:{}'\n", c.name, escaped(c.summary));
    if (c.operands == Operands::actions) {
      out += after_actions(c);
    }
    // -A: what follows the first operand of run is not ours.
    const std::string_view ours = c.operands == Operands::program ? " -A '-*'" : "";
    rest += fmt::format("    {0}) _arguments -s -S{1} $_xpurun_options_{0}{2} ;;\n", c.name, ours,
                        zsh_operands(c));
  }
  out +=
      "_xpurun_commands() {\n  local -a commands=(\n" + commands + "  )\n  _describe command commands\n}\n";
  out +=
      "_xpurun_first() {\n  _alternative 'commands:command:_xpurun_commands' "
      "'programs:program:_command_names -e'\n}\n";
  // _arguments leaves a "--" that follows no option in front of the words.
  out +=
      "_xpurun_child() {\n  if [[ $words[1] == -- ]]; then\n    shift words\n    (( CURRENT-- ))\n  fi\n"
      "  _normal\n}\n";
  out += "_xpurun_rest() {\n  case $words[1] in\n" + rest + "    *) _xpurun_child ;;\n  esac\n}\n";
  out +=
      "_xpurun() {\n  _arguments -s -S -A '-*' $_xpurun_options_run '(-)1: :_xpurun_first' "
      "'*:: :_xpurun_rest'\n}\n";
  // Autoloaded by compinit, the file is the function; sourced, it registers it.
  out += "if [ \"$funcstack[1]\" = _xpurun ]; then\n  _xpurun \"$@\"\nelse\n  compdef _xpurun xpurun\nfi\n";
  return out;
}

}  // namespace xpurun::launcher
