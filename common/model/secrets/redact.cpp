#include "common/model/secrets/redact.h"

#include "common/base/ascii_case.h"
#include "common/model/secrets/secret_option.h"
#include "common/model/secrets/secret_shape.h"

#include <algorithm>
#include <cctype>

namespace xpurun::model {

namespace {

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The end of a URL's authority. A password may contain a raw slash that should be %2F; a port has digits
// only.
size_t authority_end(std::string_view text) {
  const size_t strict = std::min(text.find_first_of("/?# \t\n\"'"), text.size());
  const size_t colon = text.substr(0, strict).find(':');
  const size_t word = std::min(text.find_first_of(" \t\n\"'"), text.size());
  const size_t at = text.substr(0, word).rfind('@');
  if (strict == text.size() || colon == text.npos || at == text.npos || at < strict) {
    return strict;
  }
  const std::string_view port = text.substr(colon + 1, strict - colon - 1);
  return port.find_first_not_of("0123456789") == port.npos
             ? strict
             : std::min(text.find_first_of("/?# \t\n\"'", at), text.size());
}

// In the address of a webhook the path is the secret. Returns where it starts; 0 if the address is not a
// webhook.
size_t webhook_secret(std::string_view url) {
  const std::string small = base::lower(url);
  for (const std::string_view mark : {"hooks.slack.com/", "/webhooks/", "/webhook/", "webhook.office.com/"}) {
    if (const size_t at = small.find(mark); at != small.npos && at + mark.size() < url.size()) {
      return at + mark.size();
    }
  }
  return 0;
}

std::string_view last_name(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && is_name_char(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin);
}

// Whether a literal is assigned to a name that looks secret. Between name and literal there may be only = : ,
// and closing brackets or quotes, or the type in "name: type = ".
bool is_given_to_secret(std::string_view before) {
  for (int i = 0; i < 2 && !before.empty() && is_name_char(before.back()); ++i) {
    before.remove_suffix(1);  // f"", rb""
  }
  const size_t last = before.find_last_not_of(" \t\"'])=:,>");
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

size_t closing_quote(std::string_view text, size_t open) {
  size_t close = open + 1;
  while (close < text.size() && text[close] != text[open]) {
    close += text[close] == '\\' ? 2 : 1;
  }
  return std::min(close, text.size());
}

std::string mask_literals(std::string_view line) {
  std::string out;
  size_t at = 0;
  while (at < line.size()) {
    const size_t open = line.find_first_of("\"'", at);
    if (open == line.npos) {
      break;
    }
    const size_t close = closing_quote(line, open);
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
  return out;
}

// The length of an unquoted value after name= or name:. The value of a header extends to the end of the line
// or quotes: "Authorization: Basic X", "Cookie: a=b; c=d".
size_t plain_value(std::string_view name, std::string_view text) {
  const std::string small = base::lower(name);
  const bool header = small.find("authorization") != small.npos || small.ends_with("cookie");
  return std::min(text.find_first_of(header ? "\"'\n" : " \t\r\n\"'&;,)}]|"), text.size());
}

// "max_tokens=1024" is a count of tokens.
bool is_count(std::string_view name, std::string_view value) {
  const std::string small = base::lower(name);
  return small.find("tokens") != small.npos && !value.empty() && value.size() <= 12 &&
         value.find_first_not_of("0123456789._") == value.npos;
}

// name=value, name: value, "name": value, each with an unquoted value.
std::string mask_plain_values(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (!is_name_char(text[at])) {
      out += text[at++];
      continue;
    }
    size_t end = at;
    while (end < text.size() && (is_name_char(text[end]) || text[end] == '-' || text[end] == '.')) {
      ++end;
    }
    const std::string_view name = text.substr(at, end - at);
    out += name;
    at = end;
    size_t value = text.find_first_not_of("\"'])", end);
    if (value == text.npos || !is_secret_name(name)) {
      continue;
    }
    value = text.find_first_not_of(" \t", value);
    if (value == text.npos || (text[value] != '=' && text[value] != ':') ||
        text.substr(value).starts_with("://")) {
      continue;
    }
    value = text.find_first_not_of("=:> \t\\", value);
    if (value == text.npos || text[value] == '"' || text[value] == '\'') {
      continue;
    }
    const size_t length = plain_value(name, text.substr(value));
    if (length == 0 || is_count(name, text.substr(value, length))) {
      continue;
    }
    out += text.substr(end, value - end);
    out += kMask;
    at = value + length;
  }
  return out;
}

// "Bearer X" anywhere; "Basic X" if X is base64.
std::string mask_schemes(std::string_view text) {
  std::string out;
  const std::string small = base::lower(text);
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(small).substr(at);
    const bool begins = at == 0 || !is_name_char(text[at - 1]);
    const size_t scheme = !begins ? 0 : rest.starts_with("bearer ") ? 7 : rest.starts_with("basic ") ? 6 : 0;
    const size_t end = scheme == 0 ? 0 : std::min(text.find_first_of(" \t\n\"',;", at + scheme), text.size());
    const std::string_view word = scheme == 0 ? "" : text.substr(at + scheme, end - at - scheme);
    const bool base64 = word.size() % 4 == 0 && word.find_first_of("0123456789=") != word.npos;
    if (word.size() >= 8 && (scheme == 7 || base64)) {
      out += text.substr(at, scheme);
      out += kMask;
      at = end;
    } else {
      out += text[at++];
    }
  }
  return out;
}

// user:password@host without a scheme. An image name "name:tag@sha256:..." does not count.
std::string mask_logins(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \t\n\"'=,;(", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const size_t colon = word.find(':');
    const size_t host = word.rfind('@');
    const bool login = colon != word.npos && host != word.npos && colon > 0 && host > colon + 1 &&
                       host + 1 < word.size() && word.substr(0, colon).find('/') == word.npos &&
                       !word.substr(host).starts_with("@sha256") && word.substr(colon, 3) != "://";
    if (login) {
      out += word.substr(0, colon + 1);
      out += kMask;
      out += word.substr(host);
    } else {
      out += word;
    }
    if (end < text.size()) {
      out += text[end];
    }
    at = end + 1;
  }
  return out;
}

std::string hide(std::string_view word, Hide what) {
  const auto after = [word](size_t at) {
    return at == word.npos || at + 1 >= word.size()
               ? std::string(word)
               : std::string(word.substr(0, at + 1)) + std::string(kMask);
  };
  switch (what) {
    case Hide::all:
      return std::string(kMask);
    case Hide::after_colon:
      return word.find("://") == word.npos ? after(word.find(':')) : std::string(word);
    case Hide::after_percent:
      return after(word.find('%'));
    case Hide::after_option:
      return after(1);
    case Hide::nothing:
      break;
  }
  return std::string(word);
}

// Words of a script: secret options in any of its commands.
std::string mask_options(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n\"'`;|&()";
  if (text.find_first_of(" \t\n") == text.npos) {
    return std::string(text);
  }
  std::string out;
  SecretOptions options;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (options.expects_secret() && (c == '"' || c == '\'')) {
      const size_t close = closing_quote(text, at);
      out += c;
      out += hide("", options.next("value"));
      at = close;
      if (at < text.size()) {
        out += text[at++];
      }
      continue;
    }
    if (kBetween.find(c) != kBetween.npos) {
      out += c;
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    out += hide(word, options.next(word));
    at = end;
  }
  return out;
}

// Secrets that need no name: addresses, headers, logins and token shapes.
std::string mask_nameless(std::string_view text) {
  return mask_secret_shapes(mask_logins(mask_schemes(redact_urls(text))));
}

// NAME=value as a whole word: the value is the rest of the word, including spaces and quotes.
bool is_secret_assignment(std::string_view word, size_t eq) {
  const std::string_view name = word.substr(0, eq);
  return eq != word.npos && std::none_of(name.begin(), name.end(), is_space) &&
         name.find_first_of("\"'()?&/") == name.npos && is_secret_name(name) &&
         !is_count(name, word.substr(eq + 1));
}

}  // namespace

std::string redact_urls(std::string_view text) {
  std::string out;
  for (;;) {
    const size_t scheme = text.find("://");
    if (scheme == std::string_view::npos) {
      return out += text;
    }
    const size_t authority = scheme + 3;
    const std::string_view host = text.substr(authority, authority_end(text.substr(authority)));
    const size_t at = host.rfind('@');
    out += text.substr(0, authority);
    if (at != std::string_view::npos) {
      out += kMask;
      out += host.substr(at);
    } else {
      out += host;
    }
    const std::string_view url =
        text.substr(authority, text.find_first_of(" \t\n\"'", authority) - authority);
    const size_t secret = webhook_secret(url);
    size_t done = host.size();
    if (secret >= done && secret > 0) {
      out += url.substr(done, secret - done);
      out += kMask;
      done = url.size();
    }
    text.remove_prefix(authority + done);
  }
}

std::string redact_source(std::string_view line) {
  return mask_nameless(mask_literals(line));
}

std::string redact_text(std::string_view text) {
  if (const size_t eq = text.find('='); is_secret_assignment(text, eq)) {
    return std::string(text.substr(0, eq + 1)) + std::string(kMask);
  }
  return mask_nameless(mask_plain_values(mask_options(mask_literals(text))));
}

std::vector<std::string> redact_argv(const std::vector<std::string>& argv) {
  std::vector<std::string> out;
  SecretOptions options;
  for (const std::string& word : argv) {
    const bool expected = options.expects_secret();
    const std::string_view option = argv[out.size() - (expected ? 1 : 0)];
    const Hide what = options.next(word);
    if (what == Hide::all && is_count(option, word)) {
      out.push_back(word);
    } else {
      out.push_back(what == Hide::nothing ? redact_text(word) : hide(word, what));
    }
  }
  return out;
}

}  // namespace xpurun::model
