#include "commands/cli/completion_shells.h"
#include "common/base/strings.h"
#include "launcher/options/command_table.h"

#include <fmt/format.h>

#include <vector>

namespace xpurun::launcher {

namespace {

// bash splits words at "=" too, so --grace=5 arrives as three words.
constexpr std::string_view kBashHead = R"(# bash completion for xpurun, made from its option table
_xpurun_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}
_xpurun_paths() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
_xpurun_runs() {
  local run
  _xpurun_paths -d
  for run in xpurun-runs/*/run.json; do
    run=${run%/run.json}
    run=${run#xpurun-runs/}
    [[ -e xpurun-runs/$run/run.json && $run == "$cur"* ]] && COMPREPLY+=("$run")
  done
}
_xpurun_pids() {
  local dir first
  COMPREPLY=()
  for dir in /proc/[1-9]*; do
    [[ -O $dir ]] && { IFS= read -r -d '' first <"$dir/cmdline"; } 2>/dev/null || continue
    [[ ${first##*/} == python* && ${dir#/proc/} == "$cur"* ]] && COMPREPLY+=("${dir#/proc/}")
  done
}
_xpurun_child() {
  if declare -F _command_offset >/dev/null || { declare -F _completion_loader >/dev/null &&
    _completion_loader sudo; declare -F _command_offset >/dev/null; }; then
    _command_offset "$1"
  elif (( COMP_CWORD == $1 )); then
    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
  else
    compopt -o default 2>/dev/null
  fi
}
)";

constexpr std::string_view kTail = R"(_xpurun() {
  local cur=${COMP_WORDS[COMP_CWORD]} command=run named= first= word i=1
  COMPREPLY=()
  while (( i < COMP_CWORD )); do
    word=${COMP_WORDS[i]}
    if [[ $word == -- ]]; then
      _xpurun_starts "$command" && _xpurun_child $(( i + 1 ))
      return
    elif [[ $word == -?* ]]; then
      if [[ $word == --* && ${COMP_WORDS[i + 1]} == = ]]; then
        (( i + 1 == COMP_CWORD )) && cur=
        (( i + 2 >= COMP_CWORD )) && { _xpurun_value "$command" "$word"; return; }
        (( i += 3 ))
        continue
      fi
      if _xpurun_takes_value "$command" "$word"; then
        (( i + 1 == COMP_CWORD )) && { _xpurun_value "$command" "$word"; return; }
        (( i += 1 ))
      fi
    elif [[ -z $named ]] && _xpurun_is_command "$word"; then
      command=$word named=1
    elif _xpurun_starts "$command"; then
      _xpurun_child "$i"
      return
    else
      first=${first:-$word}
    fi
    (( i += 1 ))
  done
  if [[ $cur == -* ]]; then
    _xpurun_options "$command"
  elif _xpurun_starts "$command"; then
    # Programs of PATH come where no command of xpurun fits.
    [[ -z $named ]] && mapfile -t COMPREPLY < <(compgen -W "$_xpurun_commands" -- "$cur")
    (( ${#COMPREPLY[@]} )) || _xpurun_child "$i"
  else
    _xpurun_operands "$command" "$first"
  fi
}
complete -F _xpurun xpurun
)";

std::string bash_value_action(const OptionSpec& o) {
  switch (o.kind) {
    case ValueKind::directory:
      return o.words.empty() ? "_xpurun_paths -d" : "_xpurun_runs";
    case ValueKind::file:
      return "_xpurun_paths -f";
    case ValueKind::processes:
      return "_xpurun_pids";
    default:
      return fmt::format("_xpurun_words '{}'", value_words(o));
  }
}

// The lines of a case statement over "command:first operand".
std::string bash_operands(const CommandSpec& c, const std::string& commands) {
  switch (c.operands) {
    case Operands::directories:
      return fmt::format("    {}:*) _xpurun_runs ;;\n", c.name);
    case Operands::commands:
      return fmt::format("    {}:) _xpurun_words '{}' ;;\n", c.name, commands);
    case Operands::processes:
      return fmt::format("    {}:*) _xpurun_pids ;;\n", c.name);
    case Operands::shells:
      return fmt::format("    {}:) _xpurun_words 'bash zsh fish' ;;\n", c.name);
    case Operands::actions: {
      std::string out = fmt::format("    {}:) _xpurun_words '{}' ;;\n", c.name, action_words(c));
      for (const Action& action : actions_of(c)) {
        if (action.then_runs) {
          out += fmt::format("    {}:{}) _xpurun_runs ;;\n", c.name, action.word);
        } else if (!action.next.empty()) {
          out += fmt::format("    {}:{}) _xpurun_words '{}' ;;\n", c.name, action.word, action.next);
        }
      }
      return out;
    }
    case Operands::none:
    case Operands::program:
      return "";
  }
  return "";
}

// "run:--out | run:-o", as pattern of a case statement
std::string pattern(const CommandSpec& c, const OptionSpec& o) {
  std::string out = fmt::format("{}:--{}", c.name, o.name);
  if (o.short_name != 0) {
    out += fmt::format(" | {}:-{}", c.name, o.short_name);
  }
  return out;
}

}  // namespace

std::string bash_completion() {
  std::vector<std::string> names;
  std::vector<std::string> starters;
  std::string takes;
  std::string values;
  std::string flags;
  std::string rest;
  for (const CommandSpec& c : command_table()) {
    names.emplace_back(c.name);
    if (c.operands == Operands::program) {
      starters.emplace_back(c.name);
    }
  }
  const std::string commands = base::join(names, " ");
  for (const CommandSpec& c : command_table()) {
    std::vector<std::string> words;
    for (const OptionSpec& o : c.options) {
      words.push_back(flag(o));
      if (takes_value(o)) {
        takes += fmt::format("    {}) ;;\n", pattern(c, o));
        values += fmt::format("    {}) {} ;;\n", pattern(c, o), bash_value_action(o));
      }
    }
    flags += fmt::format("    {}) _xpurun_words '{}' ;;\n", c.name, base::join(words, " "));
    rest += bash_operands(c, commands);
  }
  std::string out(kBashHead);
  out += fmt::format("_xpurun_commands='{}'\n", commands);
  out += "_xpurun_is_command() {\n  [[ \" $_xpurun_commands \" == *\" $1 \"* ]]\n}\n";
  out += fmt::format("_xpurun_starts() {{\n  [[ \" {} \" == *\" $1 \"* ]]\n}}\n", base::join(starters, " "));
  out += "_xpurun_takes_value() {\n  case $1:$2 in\n" + takes + "    *) return 1 ;;\n  esac\n}\n";
  out += "_xpurun_value() {\n  case $1:$2 in\n" + values + "  esac\n}\n";
  out += "_xpurun_options() {\n  case $1 in\n" + flags + "  esac\n}\n";
  out += "_xpurun_operands() {\n  case $1:$2 in\n" + rest + "  esac\n}\n";
  return out + std::string(kTail);
}

}  // namespace xpurun::launcher
