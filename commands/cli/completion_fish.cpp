#include "commands/cli/completion_shells.h"
#include "common/base/strings.h"
#include "launcher/options/command_table.h"

#include <fmt/format.h>

#include <vector>

namespace xpurun::launcher {

namespace {

// __xpurun_state prints the subcommand that options belong to, or "child" and then the child's words so far.
constexpr std::string_view kFishHead = R"(# fish completion for xpurun, made from its option table
function __xpurun_state
    set -l words (commandline -opc)
    set -e words[1]
    set -l command run
    set -l named no
    while set -q words[1]
        set -l word $words[1]
        set -e words[1]
        if test "$word" = --
            if contains -- $command $__xpurun_starters
                printf '%s\n' child $words
                return
            end
        else if string match -q -- '-?*' $word
            if contains -- "$command:$word" $__xpurun_takes_value
                set -e words[1]
            end
        else if test $named = no; and contains -- $word $__xpurun_commands
            set command $word
            set named yes
        else if contains -- $command $__xpurun_starters
            printf '%s\n' child $word $words
            return
        end
    end
    echo $command
    echo $named
end
function __xpurun_runs
    for run in xpurun-runs/*/run.json
        string replace -r '^xpurun-runs/(.*)/run.json$' '$1' -- $run
    end
    __fish_complete_directories
end
function __xpurun_pids
    for file in /proc/*/cmdline
        set -l dir (string match -r '^/proc/\d+' -- $file)
        and test -O $dir
        or continue
        set -l words (cat $file 2>/dev/null | string split0)
        string match -qr "^(.*/)?python[^/]*\$" -- $words[1]
        and printf '%s\t%s\n' (string replace /proc/ '' -- $dir) (string join ' ' -- $words)
    end
end
function __xpurun_after
    set -l words (commandline -opc)
    contains -- $argv[1] $words
end
function __xpurun_in
    set -l state (__xpurun_state)
    test "$state[1]" = $argv[1]
end
function __xpurun_first
    set -l state (__xpurun_state)
    test "$state[1]" = run; and test "$state[2]" = no
end
function __xpurun_child
    set -l state (__xpurun_state)
    set -e state[1]
    __fish_complete_subcommand --commandline $state (commandline -ct)
end
complete -c xpurun -f
complete -c xpurun -n '__xpurun_in child' -a '(__xpurun_child)'
)";

std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out + "'";
}

std::string fish_value_action(const OptionSpec& o) {
  switch (o.kind) {
    case ValueKind::directory:
      return fmt::format(" -x -a '({})'", o.words.empty() ? "__fish_complete_directories" : "__xpurun_runs");
    case ValueKind::file:
      return " -r -F";
    case ValueKind::processes:
      return " -x -a '(__xpurun_pids)'";
    default:
      return value_words(o).empty() ? " -x" : fmt::format(" -x -a '{}'", value_words(o));
  }
}

std::string fish_operands(const CommandSpec& c, const std::string& commands) {
  switch (c.operands) {
    case Operands::directories:
      return "(__xpurun_runs)";
    case Operands::commands:
      return commands;
    case Operands::processes:
      return "(__xpurun_pids)";
    case Operands::shells:
      return "bash zsh fish";
    case Operands::actions:
      return "";  // below
    case Operands::program:
      return "(__fish_complete_command)";
    case Operands::none:
      return "";
  }
  return "";
}

// The actions, and what may follow each of them.
std::string action_lines(const CommandSpec& c) {
  std::string none;
  std::string out;
  for (const Action& action : actions_of(c)) {
    none += fmt::format("; and not __xpurun_after {}", action.word);
    if (!action.next.empty()) {
      out += fmt::format("complete -c xpurun -n '__xpurun_in {}; and __xpurun_after {}' -a '{}'\n", c.name,
                         action.word, action.then_runs ? "(__xpurun_runs)" : action.next);
    }
  }
  return out +
         fmt::format("complete -c xpurun -n '__xpurun_in {}{}' -a '{}'\n", c.name, none, action_words(c));
}

}  // namespace

std::string fish_completion() {
  std::vector<std::string> names;
  std::vector<std::string> starters;
  std::vector<std::string> takes;
  std::string lines;
  for (const CommandSpec& c : command_table()) {
    names.emplace_back(c.name);
    if (c.operands == Operands::program) {
      starters.emplace_back(c.name);
    }
    lines +=
        fmt::format("complete -c xpurun -n __xpurun_first -a {} -d {}\n", c.name, fish_quoted(c.summary));
  }
  for (const CommandSpec& c : command_table()) {
    const std::string condition = fmt::format("complete -c xpurun -n '__xpurun_in {}'", c.name);
    for (const OptionSpec& o : c.options) {
      if (takes_value(o)) {
        takes.push_back(fmt::format("{}:--{}", c.name, o.name));
        if (o.short_name != 0) {
          takes.push_back(fmt::format("{}:-{}", c.name, o.short_name));
        }
      }
      lines += fmt::format("{} -l {}{}{} -d {}\n", condition, flag(o).substr(2),
                           o.short_name != 0 ? fmt::format(" -s {}", o.short_name) : std::string(),
                           takes_value(o) ? fish_value_action(o) : std::string(), fish_quoted(o.help));
    }
    if (const std::string words = fish_operands(c, base::join(names, " ")); !words.empty()) {
      lines += fmt::format("{} -a {}\n", condition, fish_quoted(words));
    }
    if (c.operands == Operands::actions) {
      lines += action_lines(c);
    }
  }
  return fmt::format(
             "set -g __xpurun_commands {}\nset -g __xpurun_starters {}\nset -g __xpurun_takes_value {}\n",
             base::join(names, " "), base::join(starters, " "), base::join(takes, " "))
             .insert(0, kFishHead) +
         lines;
}

}  // namespace xpurun::launcher
