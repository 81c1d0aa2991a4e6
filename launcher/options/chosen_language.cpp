#include "launcher/options/chosen_language.h"

namespace xpurun::launcher {

Settings typed_language(const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--lang";
  Settings out;
  const CommandSpec* command = nullptr;
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("--lang=")) {
      out.set("lang", {.value = std::string(word.substr(kFlag.size() + 1)), .source = "command line"});
    } else if (word == kFlag && i + 1 < words.size()) {
      out.set("lang", {.value = words[++i], .source = "command line"});
    } else if (word.size() > 1 && word[0] == '-') {
      const auto options = command != nullptr ? command->options : run_options();
      const OptionSpec* option = word[1] == '-'     ? find_option(options, word.substr(2))
                                 : word.size() == 2 ? find_option(options, word[1])
                                                    : nullptr;
      i += option != nullptr && takes_value(*option) ? 1 : 0;
    } else {
      const bool first = command == nullptr;
      command = first ? find_command(word) : command;
      // A program's words begin here, unless the first word names a command of ours.
      if (command == nullptr || (!first && command->operands == Operands::program)) {
        break;
      }
    }
  }
  return out;
}

std::vector<std::string> without_language(const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "--lang";
  std::vector<std::string> out;
  const CommandSpec* command = nullptr;
  size_t own_end = words.size();  // of the words before the command's name
  for (size_t i = 0; i < words.size() && command == nullptr; ++i) {
    if (words[i] == kFlag && i + 1 < words.size()) {
      ++i;
    } else if (!words[i].starts_with("--lang=")) {
      command = find_command(words[i]);
      own_end = i;
      if (command == nullptr) {
        return words;  // the words of run
      }
    }
  }
  if (command == nullptr || command->name == "run") {
    return words;
  }
  const bool reads_it =
      find_option(command->options, "lang") != nullptr || command->operands == Operands::program;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    const bool ours = i < own_end || !reads_it;
    const bool joined = words[i].starts_with("--lang=");
    const bool apart = words[i] == kFlag && i + 1 < words.size();
    const std::string_view value = joined  ? std::string_view(words[i]).substr(kFlag.size() + 1)
                                   : apart ? std::string_view(words[i + 1])
                                           : std::string_view();
    if (ours && (joined || apart) && (value == "auto" || base::language_named(value))) {
      i += apart ? 1 : 0;
    } else {
      out.push_back(words[i]);
    }
  }
  return out;
}

base::Language chosen_language(const Settings& settings, const std::map<std::string, std::string>& env) {
  const auto variable = [&env](const char* name) {
    const auto it = env.find(name);
    return it == env.end() ? std::string_view() : std::string_view(it->second);
  };
  const Setting* set = settings.find("lang");
  const auto named =
      base::language_named(set != nullptr ? std::string_view(set->value) : variable("XPURUN_LANG"));
  return named ? *named
               : base::language_of_locale(variable("LC_ALL"), variable("LC_MESSAGES"), variable("LANG"));
}

}  // namespace xpurun::launcher
