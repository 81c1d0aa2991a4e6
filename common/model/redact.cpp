#include "common/model/redact.h"

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
