// Lower case of ASCII letters; the rest stays. For names that ignore case, whatever the locale.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::base {

inline std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

}  // namespace xpurun::base
