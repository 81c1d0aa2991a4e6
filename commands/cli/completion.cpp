#include "commands/cli/completion.h"

#include "common/base/strings.h"
#include "launcher/options/command_table.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

std::vector<Suggestion> suggestions(std::string_view words) {
  std::vector<Suggestion> out;
  for (const std::string_view word : base::split(words, ' ')) {
    if (!word.empty()) {
      out.push_back({.word = std::string(word), .about = {}});
    }
  }
  return out;
}

std::vector<Suggestion> command_names() {
  std::vector<Suggestion> out;
  for (const CommandSpec& c : command_table()) {
    out.push_back({.word = std::string(c.name), .about = std::string(c.summary)});
  }
  return out;
}

Offer flags(const CommandSpec& c) {
  Offer out;
  for (const OptionSpec& o : c.options) {
    out.words.push_back({.word = flag(o), .about = std::string(o.help)});
  }
  return out;
}

Offer values(const OptionSpec& o) {
  switch (o.kind) {
    case ValueKind::directory:
      return {.also = o.words.empty() ? Offered::directories : Offered::runs, .words = {}};
    case ValueKind::file:
      return {.also = Offered::files, .words = {}};
    case ValueKind::processes:
      return {.also = Offered::processes, .words = {}};
    default: {
      // The default too, so that no single word is offered as the only choice.
      const std::string usual(o.default_text);
      const bool is_word = usual.find_first_of(" '\"$`\\<>|&;()") == std::string::npos;
      Offer out{.words = suggestions(o.words)};
      if (is_word && !usual.empty() &&
          std::none_of(out.words.begin(), out.words.end(),
                       [&](const auto& known) { return known.word == usual; })) {
        out.words.push_back({.word = usual, .about = {}});
      }
      return out;
    }
  }
}

// What may follow `first`, one of CommandSpec::actions; the actions themselves if there is none yet.
Offer actions(const CommandSpec& c, std::string_view first) {
  Offer out;
  for (const std::string_view entry : base::split(c.actions, ' ')) {
    const size_t sign = std::min(entry.find('='), entry.size());
    const std::string_view action = entry.substr(0, sign);
    std::string next(entry.substr(std::min(sign + 1, entry.size())));
    if (first.empty()) {
      out.words.push_back({.word = std::string(action), .about = {}});
    } else if (first == action && next == "@") {
      out.also = Offered::runs;
    } else if (first == action) {
      std::replace(next.begin(), next.end(), ',', ' ');
      out.words = suggestions(next);
    }
  }
  return out;
}

Offer operands(const CommandSpec& c, std::string_view first) {
  switch (c.operands) {
    case Operands::directories:
      return {.also = Offered::runs, .words = {}};
    case Operands::processes:
      return {.also = Offered::processes, .words = {}};
    case Operands::commands:
      return {.words = first.empty() ? command_names() : std::vector<Suggestion>()};
    case Operands::shells:
      return {.words = suggestions(first.empty() ? "bash zsh fish" : "")};
    case Operands::actions:
      return actions(c, first);
    case Operands::none:
    case Operands::program:
      return {};
  }
  return {};
}

const OptionSpec* option_of(const CommandSpec& c, std::string_view word) {
  const OptionSpec* found = word.starts_with("--") ? find_option(c.options, word.substr(2))
                            : word.size() == 2     ? find_option(c.options, word[1])
                                                   : nullptr;
  return found != nullptr && takes_value(*found) ? found : nullptr;
}

}  // namespace

std::optional<Shell> shell_named(std::string_view name) {
  if (name == "bash") {
    return Shell::bash;
  }
  if (name == "zsh") {
    return Shell::zsh;
  }
  return name == "fish" ? std::optional(Shell::fish) : std::nullopt;
}

Offer offer_for(std::span<const std::string> words) {
  const CommandSpec* command = find_command("run");
  bool named = false;
  std::string_view first;  // operand of the command
  const auto starts = [&] { return command->operands == Operands::program; };
  const std::string_view current = words.empty() ? std::string_view() : std::string_view(words.back());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--") {
      return starts() ? Offer{.also = Offered::command, .begin = i + 1, .words = {}} : Offer{};
    }
    if (word.starts_with("-") && word.size() > 1) {
      const OptionSpec* option = option_of(*command, word);
      const bool split = word.starts_with("--") && words[i + 1] == "=";
      i += split ? 2 : option != nullptr ? 1 : 0;
      if (i + 1 >= words.size() && (split || option != nullptr)) {
        return option != nullptr ? values(*option) : Offer{};
      }
    } else if (const CommandSpec* found = named ? nullptr : find_command(word); found != nullptr) {
      command = found;
      named = true;
    } else if (starts()) {
      return {.also = Offered::command, .begin = i, .words = {}};
    } else if (first.empty()) {
      first = word;
    }
  }
  if (const size_t sign = current.find('='); current.starts_with("--") && sign != std::string_view::npos) {
    const OptionSpec* option = option_of(*command, current.substr(0, sign));
    return option != nullptr ? values(*option) : Offer{};
  }
  if (current.starts_with("-")) {
    return flags(*command);
  }
  if (starts()) {
    // Programs come where no command of xpurun fits.
    return {.also = Offered::command,
            .begin = words.empty() ? 0 : words.size() - 1,
            .words = named ? std::vector<Suggestion>() : command_names()};
  }
  return operands(*command, first);
}

}  // namespace xpurun::launcher
