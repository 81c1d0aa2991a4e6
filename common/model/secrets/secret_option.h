// Walks over the words of a command line and finds the values of options that take a secret.
#pragma once

#include <string_view>

namespace xpurun::model {

// The secret part of a word.
enum class Hide {
  nothing,
  all,            // the whole word
  after_colon,    // user:password
  after_percent,  // user%password
  after_option,   // -pPASSWORD
};

// Feed the words of one command in order. Keeps no copy of them.
class SecretOptions {
 public:
  Hide next(std::string_view word);
  // Whether the next word is a value to be masked as a whole.
  bool expects_secret() const { return next_ == Hide::all; }

 private:
  // Programs with short options for secrets.
  enum class Program { other, mysql, sshpass, seven_zip, redis, ldap, zip, mosquitto, smb, openssl, curl };

  static Program program_of(std::string_view word);
  Hide short_option(std::string_view word);

  Program program_ = Program::other;
  Hide next_ = Hide::nothing;
};

}  // namespace xpurun::model
