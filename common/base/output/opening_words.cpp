#include "common/base/output/opening_words.h"

#include "common/base/strings.h"

#include <cctype>

namespace xpurun::base {

namespace {
// The end of the first sentence that ends at or after `from`: a full stop before a word that begins anew
// ("e.g. this" goes on).
size_t sentence_end(std::string_view text, size_t from) {
  for (size_t at = from; (at = text.find(". ", at)) != std::string_view::npos; ++at) {
    const std::string_view rest = trim(text.substr(at + 1));
    if (!rest.empty() && std::islower(static_cast<unsigned char>(rest.front())) == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}
}  // namespace

std::string opening_words(std::string_view text, size_t columns) {
  constexpr size_t kMark = 2;  // columns of " …"
  const auto without_stop = [](std::string_view sentence) {
    sentence = trim(sentence);
    const bool stop = sentence.ends_with('.') && !sentence.ends_with("..");
    return std::string(stop ? sentence.substr(0, sentence.size() - 1) : sentence);
  };
  if (std::string whole = without_stop(text); display_width(whole) <= columns) {
    return whole;
  }
  // As many sentences as it takes to fill half of the columns.
  std::string sentences;
  for (size_t end = 0; (end = sentence_end(text, end)) != std::string_view::npos;) {
    std::string more = without_stop(text.substr(0, end));
    if (display_width(more) > columns) {
      break;
    }
    sentences = std::move(more);
    if (display_width(sentences) * 2 >= columns) {
      break;
    }
  }
  if (!sentences.empty() || columns <= kMark) {
    return sentences;
  }
  const std::string lines = wrap(text, columns - kMark, 0);
  return elide_middle(lines.substr(0, lines.find('\n')), columns - kMark) + " …";
}

}  // namespace xpurun::base
