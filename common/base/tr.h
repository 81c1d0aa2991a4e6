// Translation of the text for people. The English text is the key; po/zh_CN.po has the translations, compiled
// into the program. A thread writes English, unless a renderer for people has opened a scope with the
// language that the program chose at its start:
//   const Speaking speaking(options.language);
//   line = tr("all {} ranks", n);
// Never make text for programs inside such a scope.
#pragma once

#include "common/base/language.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace xpurun::base {

// Until its end, tr() on this thread translates into `language`. Scopes nest.
class Speaking {
 public:
  explicit Speaking(Language language);
  ~Speaking();
  Speaking(const Speaking&) = delete;
  Speaking& operator=(const Speaking&) = delete;

 private:
  Language before_;
};

Language spoken();

// The text itself in English, and where the catalogue has no translation. The result lives as long as
// `english`.
std::string_view translation_of(std::string_view english);
// The same, as a copy.
std::string tr(std::string_view english);

// In Chinese, without the blanks that joined parts leave behind full-width marks: "rank 1（host a） 停在".
std::string tidied(std::string text);

// Formats the translation, which may use the arguments in another order: "{1} of {0}". The compiler checks
// the English text, the compiler of the catalogue (po/catalogue.py) checks the translation against it.
template <typename First, typename... Rest>
std::string tr(fmt::format_string<First, Rest...> english, First&& first, Rest&&... rest) {
  const fmt::string_view text = english;
  const std::string_view translated = translation_of(std::string_view(text.data(), text.size()));
  return tidied(fmt::vformat(fmt::string_view(translated.data(), translated.size()),
                             fmt::make_format_args(first, rest...)));
}

// The language of messages to the person who typed the command line: errors of its options and of the
// commands, which no file keeps. Chosen once at the start, before other threads exist; English before.
void set_command_language(Language language);
Language command_language();

// tr() in that language, independent of the thread's scope, because an error is made where its cause is
// known.
std::string cli_text(std::string_view english);
template <typename First, typename... Rest>
std::string cli_text(fmt::format_string<First, Rest...> english, First&& first, Rest&&... rest) {
  const Speaking speaking(command_language());
  return tr<First, Rest...>(english, std::forward<First>(first), std::forward<Rest>(rest)...);
}

// Marks a text in a table that is translated where it is shown.
constexpr std::string_view later(std::string_view english) {
  return english;
}

// For a template: each {{#t}}TEXT{{/t}} becomes the translation of TEXT.
std::string tr_template(std::string_view text);

}  // namespace xpurun::base
