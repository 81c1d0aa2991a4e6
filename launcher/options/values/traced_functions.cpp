#include "launcher/options/values/traced_functions.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostNames = 200;

// Letters outside of ASCII may be part of a name in Python.
bool is_identifier(std::string_view word) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
  };
  return !word.empty() && is_letter(word.front()) && std::all_of(word.begin(), word.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
  });
}

bool is_dotted(std::string_view text) {
  const auto words = base::split(text, '.');
  return std::all_of(words.begin(), words.end(), is_identifier);
}

// Without a colon: xpu_timer's forms.
std::string in_one_form(std::string name) {
  if (name.find(':') != std::string::npos) {
    return name;
  }
  const size_t first = name.find(name.find('@') != std::string::npos ? '@' : '.');
  if (first == std::string::npos) {
    return fmt::format("__main__:{}", name);
  }
  std::replace(name.begin(), name.end(), '@', '.');
  name[first] = ':';
  return name;
}

}  // namespace

base::Result<std::string> traced_functions(std::string_view list) {
  std::vector<std::string> out;
  for (const std::string_view entry : base::split(list, ',')) {
    const std::string_view given = base::trim(entry);
    if (given.empty()) {
      continue;
    }
    const std::string name = in_one_form(std::string(given));
    const size_t colon = name.find(':');
    if (colon == std::string::npos || !is_dotted(std::string_view(name).substr(0, colon)) ||
        !is_dotted(std::string_view(name).substr(colon + 1))) {
      return base::fail(
          base::cli_text("'{}' is not module:function or module:Class.method", base::sanitize(given)));
    }
    if (std::find(out.begin(), out.end(), name) == out.end()) {
      out.push_back(name);
    }
  }
  if (out.size() > kMostNames) {
    return base::fail(base::cli_text("more than {} functions", kMostNames));
  }
  return base::join(out, ",");
}

}  // namespace xpurun::launcher
