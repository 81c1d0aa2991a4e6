#include "launcher/options/chosen_language.h"

namespace xpurun::launcher {

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
