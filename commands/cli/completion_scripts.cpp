#include "commands/cli/completion.h"

namespace xpurun::launcher {

namespace {

// bash splits words at "=" too, so --grace=5 arrives as three words.
constexpr std::string_view kBash = R"(# bash completion for xpurun, which knows what may follow
_xpurun() {
  local program=${1/#\~/$HOME} cur=${COMP_WORDS[COMP_CWORD]} option= word lines also
  mapfile -t lines < <("$program" __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  also=${lines[0]}
  COMPREPLY=()
  if [[ $cur == = ]]; then
    cur=
  elif [[ $cur == --*=* ]]; then
    option=${cur%%=*}= cur=${cur#*=}
  fi
  for word in "${lines[@]:1}"; do
    [[ $word == "$cur"* ]] && COMPREPLY+=("$option$word")
  done
  case $also in
    file | directory)
      compopt -o filenames 2>/dev/null
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -A "$also" -P "$option" -- "$cur")
      ;;
    command*)
      (( ${#COMPREPLY[@]} )) || _xpurun_command $(( ${also#command } + 1 ))
      ;;
  esac
}
_xpurun_command() {
  if declare -F _command_offset >/dev/null || { declare -F _completion_loader >/dev/null &&
    _completion_loader sudo; declare -F _command_offset >/dev/null; }; then
    _command_offset "$1"
  elif (( COMP_CWORD == $1 )); then
    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
  else
    compopt -o default 2>/dev/null
  fi
}
complete -F _xpurun xpurun
)";

// Autoloaded by compinit, the file is the function; sourced, it registers it.
constexpr std::string_view kZsh = R"(#compdef xpurun
# zsh completion for xpurun, which knows what may follow
_xpurun() {
  local -a lines
  local also
  integer begin
  lines=("${(@f)$(${(Q)words[1]/#\~/$HOME} __complete zsh "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  also=$lines[1]
  shift lines
  [[ $PREFIX == --*=* ]] && compset -P '*='
  (( $#lines )) && _describe -t words word lines
  case $also in
    file) _files ;;
    directory) _files -/ ;;
    command*)
      begin=$(( ${also#command } + 1 ))
      shift $begin words
      (( CURRENT -= begin ))
      _normal
      ;;
  esac
}
if [ "$funcstack[1]" = _xpurun ]; then
  _xpurun "$@"
else
  compdef _xpurun xpurun
fi
)";

constexpr std::string_view kFish = R"(# fish completion for xpurun, which knows what may follow
function __xpurun_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    type -q $program; or return
    set -e words[1]
    set -l current (commandline -ct)
    set -l lines ($program __complete fish $words "$current" 2>/dev/null)
    set -l also $lines[1]
    set -e lines[1]
    set -l option (string match -r '^--[^=]*=' -- $current)
    set -l value (string replace -r '^--[^=]*=' '' -- $current)
    switch "$also"
        case file
            set -a lines (__fish_complete_path $value)
        case directory
            set -a lines (__fish_complete_directories $value)
        case 'command *'
            set -l skip (string replace 'command ' '' -- $also)
            if test $skip -gt 0
                set -e words[1..$skip]
            end
            __fish_complete_subcommand --commandline $words $current
    end
    for line in $lines
        printf '%s\n' "$option$line"
    end
end
complete -c xpurun -f -a '(__xpurun_complete)'
)";

}  // namespace

std::string_view completion_script(Shell shell) {
  switch (shell) {
    case Shell::bash:
      return kBash;
    case Shell::zsh:
      return kZsh;
    case Shell::fish:
      return kFish;
  }
  return {};
}

}  // namespace xpurun::launcher
