#include "commands/cli/completion.h"

#include "commands/cli/completion_shells.h"
#include "common/base/strings.h"

#include <algorithm>

namespace xpurun::launcher {

std::string value_words(const OptionSpec& o) {
  std::string out(o.words);
  const auto known = base::split(o.words, ' ');
  const std::string usual(o.default_text);
  const bool is_word = !usual.empty() && usual.find_first_of(" '\"$`\\<>|&;()") == std::string::npos;
  if (is_word && std::find(known.begin(), known.end(), o.default_text) == known.end()) {
    out += (out.empty() ? "" : " ") + usual;
  }
  return out;
}

std::vector<Action> actions_of(const CommandSpec& c) {
  std::vector<Action> out;
  for (const std::string_view entry : base::split(c.actions, ' ')) {
    const size_t sign = entry.find('=');
    Action action{.word = entry.substr(0, sign), .next = {}};
    if (sign != std::string_view::npos) {
      action.next = entry.substr(sign + 1);
      action.then_runs = action.next == "@";
      std::replace(action.next.begin(), action.next.end(), action.then_runs ? '@' : ',', ' ');
    }
    out.push_back(std::move(action));
  }
  return out;
}

std::string action_words(const CommandSpec& c) {
  std::vector<std::string> out;
  for (const Action& action : actions_of(c)) {
    out.emplace_back(action.word);
  }
  return base::join(out, " ");
}

std::string completion_script(Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_completion();
    case Shell::zsh:
      return zsh_completion();
    case Shell::fish:
      return fish_completion();
  }
  return {};
}

}  // namespace xpurun::launcher
