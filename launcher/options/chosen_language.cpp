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
