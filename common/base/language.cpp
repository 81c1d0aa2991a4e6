#include "common/base/language.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace xpurun::base {

namespace {

bool is_utf8(std::string_view encoding) {
  std::string name;
  for (const char c : encoding) {
    if (c != '-') {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return name == "utf8";
}

}  // namespace

std::optional<Language> language_named(std::string_view name) {
  return name == "zh"   ? std::optional(Language::chinese)
         : name == "en" ? std::optional(Language::english)
                        : std::nullopt;
}

std::string_view name_of(Language language) {
  return language == Language::chinese ? "zh" : "en";
}

Language language_of_locale(std::string_view lc_all, std::string_view lc_messages, std::string_view lang) {
  const std::string_view locale = !lc_all.empty() ? lc_all : !lc_messages.empty() ? lc_messages : lang;
  if (!locale.starts_with("zh")) {
    return Language::english;
  }
  const size_t dot = locale.find('.');
  if (dot == std::string_view::npos) {
    return Language::chinese;
  }
  const std::string_view rest = locale.substr(dot + 1);
  return is_utf8(rest.substr(0, rest.find('@'))) ? Language::chinese : Language::english;
}

}  // namespace xpurun::base
