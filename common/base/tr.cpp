#include "common/base/tr.h"

#include "common/base/catalogue.h"

#include <algorithm>

namespace xpurun::base {

namespace {

thread_local Language t_language = Language::english;
Language g_command_language = Language::english;

constexpr std::string_view kBegin = "{{#t}}";
constexpr std::string_view kEnd = "{{/t}}";

}  // namespace

Speaking::Speaking(Language language) : before_(t_language) {
  t_language = language;
}

Speaking::~Speaking() {
  t_language = before_;
}

Language spoken() {
  return t_language;
}

std::string_view translation_of(std::string_view english) {
  if (t_language == Language::english) {
    return english;
  }
  const auto catalogue = chinese_catalogue();
  const auto found =
      std::lower_bound(catalogue.begin(), catalogue.end(), english,
                       [](const Translation& t, std::string_view key) { return t.english < key; });
  return found != catalogue.end() && found->english == english ? found->text : english;
}

std::string tr(std::string_view english) {
  return std::string(translation_of(english));
}

void set_command_language(Language language) {
  g_command_language = language;
}

Language command_language() {
  return g_command_language;
}

std::string cli_text(std::string_view english) {
  const Speaking speaking(g_command_language);
  return tr(english);
}

std::string tidied(std::string text) {
  if (t_language == Language::english) {
    return text;
  }
  // English patterns put a blank after these marks; the full-width forms contain it.
  for (const std::string_view mark : {"）", "，", "；", "："}) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + mark.size())) {
      const size_t behind = at + mark.size();
      text.erase(behind, std::min(text.find_first_not_of(' ', behind), text.size()) - behind);
    }
  }
  return text;
}

std::string tr_template(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t begin = text.find(kBegin);
    const size_t end = begin == std::string_view::npos ? begin : text.find(kEnd, begin);
    if (end == std::string_view::npos) {
      return out += text;
    }
    out += text.substr(0, begin);
    out += translation_of(text.substr(begin + kBegin.size(), end - begin - kBegin.size()));
    text.remove_prefix(end + kEnd.size());
  }
}

}  // namespace xpurun::base
