// The languages of the text for people. Files, metrics, logs and exit statuses for machines are English
// always (docs/languages.md).
#pragma once

#include <optional>
#include <string_view>

namespace xpurun::base {

enum class Language { english, chinese };

// "en", "zh"; empty for any other word.
std::optional<Language> language_named(std::string_view name);
// "en", "zh": for options and <html lang>.
std::string_view name_of(Language language);

// The language of the messages of a locale, as setlocale(3) picks the locale: the first value that is not
// empty decides. Chinese needs UTF-8, so that "zh_CN.GB18030" gives English; a locale that names no encoding
// counts as UTF-8.
Language language_of_locale(std::string_view lc_all, std::string_view lc_messages, std::string_view lang);

}  // namespace xpurun::base
