#include "common/model/redact.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace xpurun::model {

bool is_secret_name(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kWords = {"TOKEN",    "KEY",    "SECRET",
                                                             "PASSWORD", "PASSWD", "CREDENTIAL"};
  std::string upper;
  for (char c : name) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  for (std::string_view word : kWords) {
    if (upper.find(word) != std::string::npos) {
      return true;
    }
  }
  return false;
}

std::string redact_urls(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) {
      return out += text;
    }
    const size_t authority = scheme + 3;
    const size_t end = text.find_first_of("/?# \t\n\"'", authority);
    const std::string_view host =
        text.substr(authority, end == std::string_view::npos ? end : end - authority);
    const size_t at = host.rfind('@');
    out += text.substr(0, authority);
    if (at != std::string_view::npos) {
      out += kMask;
      out += host.substr(at);
    } else {
      out += host;
    }
    text.remove_prefix(authority + host.size());
  }
}

namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view last_name(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_name_char(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin);
}

// Whether the literal that follows is given to a name that looks secret: between the two stands nothing but
// = : , and brackets or quotes that close, or the type of "name: type = ".
bool is_given_to_secret(std::string_view before) {
  for (int i = 0; i < 2 && !before.empty() && is_name_char(before.back()); ++i) {
    before.remove_suffix(1);  // f"", rb""
  }
  const size_t last = before.find_last_not_of(" \t\"'])=:,");
  if (last == before.npos || before.find_first_of("=:,", last) == before.npos) {
    return false;
  }
  before = before.substr(0, last + 1);
  const std::string_view name = last_name(before);
  before.remove_suffix(name.size());
  before = before.substr(0, before.find_last_not_of(' ') + 1);
  return is_secret_name(name) ||
         (before.ends_with(':') && is_secret_name(last_name(before.substr(0, before.size() - 1))));
}

}  // namespace

std::string redact_source(std::string_view line) {
  std::string out;
  size_t at = 0;
  while (at < line.size()) {
    const size_t open = line.find_first_of("\"'", at);
    if (open == line.npos) {
      break;
    }
    size_t close = open + 1;
    while (close < line.size() && line[close] != line[open]) {
      close += line[close] == '\\' ? 2 : 1;
    }
    close = std::min(close, line.size());
    out += line.substr(at, open + 1 - at);
    out += close > open + 1 && is_given_to_secret(line.substr(0, open))
               ? kMask
               : line.substr(open + 1, close - open - 1);
    if (close < line.size()) {
      out += line[close];
    }
    at = close + 1;
  }
  if (at < line.size()) {
    out += line.substr(at);
  }
  return redact_urls(out);
}

std::vector<std::string> redact_argv(const std::vector<std::string>& argv) {
  std::vector<std::string> out;
  bool mask_next = false;
  for (const std::string& word : argv) {
    const bool option = word.starts_with("-");
    if (mask_next && !option) {
      out.emplace_back(kMask);
      mask_next = false;
      continue;
    }
    const size_t eq = word.find('=');
    const std::string_view name = std::string_view(word).substr(0, eq);
    const bool one_word = name.find_first_of(" \t\n") == std::string_view::npos;
    if (eq != std::string::npos && one_word && is_secret_name(name)) {
      out.push_back(word.substr(0, eq + 1) + std::string(kMask));
    } else {
      out.push_back(redact_urls(word));
    }
    mask_next = option && eq == std::string::npos && is_secret_name(name);
  }
  return out;
}

std::map<std::string, std::string> redact_env(const std::map<std::string, std::string>& env) {
  std::map<std::string, std::string> out;
  for (const auto& [name, value] : env) {
    out[name] = is_secret_name(name) ? std::string(kMask) : redact_urls(value);
  }
  return out;
}

}  // namespace xpurun::model
