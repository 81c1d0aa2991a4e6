#include "common/model/secrets/secret_option.h"

#include "common/model/secrets/secret_name.h"

#include <algorithm>
#include <array>
#include <utility>

namespace xpurun::model {

SecretOptions::Program SecretOptions::program_of(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, Program>, 22> kNames = {{
      {"mysql", Program::mysql},
      {"mysqldump", Program::mysql},
      {"mysqladmin", Program::mysql},
      {"mysqlimport", Program::mysql},
      {"mariadb", Program::mysql},
      {"mariadb-dump", Program::mysql},
      {"sshpass", Program::sshpass},
      {"7z", Program::seven_zip},
      {"7za", Program::seven_zip},
      {"7zr", Program::seven_zip},
      {"redis-cli", Program::redis},
      {"ldapsearch", Program::ldap},
      {"ldapmodify", Program::ldap},
      {"ldapwhoami", Program::ldap},
      {"zip", Program::zip},
      {"unzip", Program::zip},
      {"mosquitto_pub", Program::mosquitto},
      {"mosquitto_sub", Program::mosquitto},
      {"smbclient", Program::smb},
      {"openssl", Program::openssl},
      {"curl", Program::curl},
      {"wget", Program::curl},
  }};
  const std::string_view base = word.substr(word.find_last_of('/') + 1);
  const auto* found =
      std::find_if(kNames.begin(), kNames.end(), [base](const auto& n) { return n.first == base; });
  return found == kNames.end() ? Program::other : found->second;
}

// Covers the word itself; next_ covers the word after the option.
Hide SecretOptions::short_option(std::string_view word) {
  const auto is = [word](std::string_view option) { return word == option; };
  const auto glued = [word](std::string_view option) { return word.starts_with(option) && word.size() > 2; };
  if (is("-u") || is("-U") || is("--user") || is("--proxy-user")) {
    next_ = program_ == Program::smb ? Hide::after_percent : Hide::after_colon;
  } else if (is("-p") || (is("-a") && program_ == Program::redis) ||
             (is("-w") && program_ == Program::ldap) ||
             (is("-P") && (program_ == Program::zip || program_ == Program::mosquitto)) ||
             ((is("-k") || is("-K")) && program_ == Program::openssl)) {
    next_ = Hide::all;
  } else if (glued("-p") &&
             (program_ == Program::mysql || program_ == Program::sshpass || program_ == Program::seven_zip)) {
    return Hide::after_option;
  } else if ((glued("-P") && program_ == Program::zip) || (glued("-w") && program_ == Program::ldap)) {
    return Hide::after_option;
  } else if (glued("-u") && program_ == Program::curl) {
    return Hide::after_colon;
  }
  return Hide::nothing;
}

Hide SecretOptions::next(std::string_view word) {
  const bool option = word.size() > 1 && word.front() == '-';
  const Hide expected = std::exchange(next_, Hide::nothing);
  if (!option) {
    if (expected != Hide::nothing) {
      return expected;
    }
    if (const Program p = program_of(word); p != Program::other) {
      program_ = p;
    }
    return Hide::nothing;
  }
  const Hide self = short_option(word);
  const size_t name_end = word.find_first_of("= \t\n:");
  if (next_ == Hide::nothing && self == Hide::nothing && name_end == word.npos && is_secret_name(word)) {
    next_ = Hide::all;
  }
  return self;
}

}  // namespace xpurun::model
