// The words of a line with blanks or tabs of any number between the words, as the kernel's tables have them.
#pragma once

#include <string_view>
#include <vector>

namespace xpurun::launcher {

inline std::vector<std::string_view> blank_words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string_view> out;
  for (size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;
       at = line.find_first_not_of(kBlanks, at)) {
    const size_t end = line.find_first_of(kBlanks, at);
    out.push_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

}  // namespace xpurun::launcher
