#include "common/model/secrets/secret_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace xpurun::model {

namespace {

constexpr std::array<std::string_view, 16> kAnywhere = {
    "KEY",        "SECRET",   "PASSWORD",         "PASSWD",           "PASSPHRASE", "PASSCODE",
    "CREDENTIAL", "WEBHOOK",  "BEARER",           "COOKIE",           "MNEMONIC",   "PRIVATE",
    "CONNSTR",    "AUTHORIZ", "CONNECTIONSTRING", "CONNECTION_STRING"};
// These contain KEY, but their values are not secrets: KeyError: 'label', --num-keypoints 17.
constexpr std::array<std::string_view, 7> kHarmless = {"KEYERROR", "KEYBOARD", "KEYPOINT",       "KEYFRAME",
                                                       "KEYWORD",  "MONKEY",   "KEY_VALUE_HEADS"};
constexpr std::array<std::string_view, 12> kParts = {"PASS",  "PASSWORT", "PWD", "CRED", "CREDS",     "AUTH",
                                                     "OAUTH", "JWT",      "DSN", "TOTP", "SIGNATURE", "CSRF"};
// As the first part of a name these are too often harmless: pin_memory, sig_digits, pat_dir.
constexpr std::array<std::string_view, 8> kLastParts = {"PAT", "PIN", "PW",  "OTP",
                                                        "SIG", "SAS", "PSK", "SALT"};
constexpr std::array<std::string_view, 5> kHarmlessEnds = {"BYPASS", "COMPASS", "SURPASS", "TRESPASS",
                                                           "UNDERPASS"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The parts in capitals. Punctuation and a change from small to capital letter divide parts; trailing digits
// are dropped.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> out(1);
  char last = 0;
  for (const char c : name) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) == 0 ||
        (std::isupper(u) != 0 && std::islower(static_cast<unsigned char>(last)) != 0)) {
      out.emplace_back();
    }
    if (std::isalnum(u) != 0) {
      out.back() += static_cast<char>(std::toupper(u));
    }
    last = c;
  }
  for (std::string& part : out) {
    part.erase(part.find_last_not_of("0123456789") + 1);
  }
  std::erase(out, "");
  return out;
}

// Matches TOKEN but not tokenizer, which appears in most training commands.
bool has_token(std::string_view upper) {
  for (size_t at = upper.find("TOKEN"); at != upper.npos; at = upper.find("TOKEN", at + 1)) {
    if (!upper.substr(at + 5).starts_with("IZ")) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_secret_name(std::string_view name) {
  std::string upper;
  for (const char c : name) {
    upper += c == '-' || c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  for (const std::string_view word : kHarmless) {
    if (const size_t at = upper.find(word); at != upper.npos) {
      upper.erase(at, word.size());
    }
  }
  const auto holds = [&upper](std::string_view word) { return upper.find(word) != std::string::npos; };
  if (has_token(upper) || std::any_of(kAnywhere.begin(), kAnywhere.end(), holds)) {
    return true;
  }
  const std::vector<std::string> parts = parts_of(name);
  if (parts.empty() || upper == "PWD" || upper == "OLDPWD") {  // the shell's directories
    return upper == "PWD" && name != "PWD";
  }
  return contains(kLastParts, parts.back()) ||
         std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
           return contains(kParts, part) || (part.ends_with("PASS") && !contains(kHarmlessEnds, part)) ||
                  (part.size() > 3 && part.ends_with("PWD") && part != "OLDPWD");
         });
}

}  // namespace xpurun::model
