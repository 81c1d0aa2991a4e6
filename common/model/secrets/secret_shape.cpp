#include "common/model/secrets/secret_shape.h"

#include "common/model/secrets/mask.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace xpurun::model {

namespace {

struct Prefix {
  std::string_view text;
  size_t least;  // minimum number of characters behind the prefix; with fewer, the text is an ordinary word
};

// As documented by the services.
constexpr std::array kPrefixes = {
    Prefix{"ghp_", 16},    Prefix{"gho_", 16},        Prefix{"ghu_", 16},     Prefix{"ghs_", 16},
    Prefix{"ghr_", 16},    Prefix{"github_pat_", 16}, Prefix{"glpat-", 16},   Prefix{"gldt-", 16},
    Prefix{"hf_", 16},     Prefix{"api_org_", 16},    Prefix{"sk-", 16},      Prefix{"sk_live_", 8},
    Prefix{"sk_test_", 8}, Prefix{"rk_live_", 8},     Prefix{"pk_live_", 8},  Prefix{"whsec_", 8},
    Prefix{"xoxa-", 8},    Prefix{"xoxb-", 8},        Prefix{"xoxe-", 8},     Prefix{"xoxo-", 8},
    Prefix{"xoxp-", 8},    Prefix{"xoxr-", 8},        Prefix{"xoxs-", 8},     Prefix{"xapp-", 8},
    Prefix{"AKIA", 16},    Prefix{"ASIA", 16},        Prefix{"AIza", 30},     Prefix{"ya29.", 16},
    Prefix{"npm_", 16},    Prefix{"pypi-", 16},       Prefix{"dop_v1_", 16},  Prefix{"SG.", 16},
    Prefix{"glsa_", 16},   Prefix{"nvapi-", 16},      Prefix{"dapi", 32},     Prefix{"hvs.", 16},
    Prefix{"gsk_", 16},    Prefix{"xai-", 16},        Prefix{"pplx-", 16},    Prefix{"r8_", 16},
    Prefix{"rpa_", 16},    Prefix{"tskey-", 8},       Prefix{"shpat_", 16},   Prefix{"lin_api_", 16},
    Prefix{"eyJ", 16},     Prefix{"wandb_v1_", 16},   Prefix{"dckr_pat_", 8}, Prefix{"AGE-SECRET-KEY-1", 16},
};

bool is_alnum(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}

bool is_token_char(char c) {
  return is_alnum(c) || c == '_' || c == '-' || c == '.' || c == '~';
}

bool is_run_char(char c) {
  return is_alnum(c) || c == '_' || c == '-' || c == '+' || c == '/';
}

// Length of a known service's token at the start of the text; 0 if none.
size_t known_token(std::string_view text) {
  for (const Prefix& p : kPrefixes) {
    if (!text.starts_with(p.text)) {
      continue;
    }
    size_t end = p.text.size();
    bool digit_or_capital = false;
    while (end < text.size() && is_token_char(text[end])) {
      const auto c = static_cast<unsigned char>(text[end++]);
      digit_or_capital = digit_or_capital || std::isdigit(c) != 0 || std::isupper(c) != 0;
    }
    if (end - p.text.size() >= p.least && digit_or_capital) {
      return end;
    }
  }
  return 0;
}

// Statistics of a text's characters. `changes` counts neighbours of different kinds (small, capital, digit):
// words have few, random text about three in five.
struct Makeup {
  size_t length = 0;
  size_t changes = 0;
  bool small = false;
  bool capital = false;
  bool digit = false;
  bool hex = true;

  explicit Makeup(std::string_view text) : length(text.size()) {
    int last = 0;
    for (const char c : text) {
      const auto u = static_cast<unsigned char>(c);
      const int kind = std::isdigit(u) != 0 ? 1 : std::islower(u) != 0 ? 2 : std::isupper(u) != 0 ? 3 : 4;
      digit = digit || kind == 1;
      small = small || kind == 2;
      capital = capital || kind == 3;
      hex = hex && std::isxdigit(u) != 0;
      changes += last != 0 && last != kind ? 1 : 0;
      last = kind;
    }
  }
  bool changes_at_least(size_t percent) const {
    return length > 1 && changes * 100 >= (length - 1) * percent;
  }
};

enum class Place { text, file, url };

bool looks_random(std::string_view segment, Place place) {
  const Makeup m(segment);
  if (m.small && m.capital) {
    return m.changes_at_least(35) && m.length >= (m.digit ? size_t{20} : size_t{40});
  }
  if (m.length < 32 || !m.digit || !(m.small || m.capital)) {
    return false;
  }
  return m.hex ? place != Place::file : m.changes_at_least(25);
}

// A name with words between - and _ does not count.
bool has_random_part(std::string_view component, Place place) {
  while (!component.empty()) {
    const size_t end = std::min(component.find_first_of("-_"), component.size());
    if (looks_random(component.substr(0, end), place)) {
      return true;
    }
    component.remove_prefix(std::min(end + 1, component.size()));
  }
  return false;
}

// Base64 may contain slashes, and the parts between them are too short to judge.
bool is_blob(std::string_view run) {
  std::string joined(run);
  std::erase(joined, '/');
  const Makeup m(joined);
  return m.length >= 32 && m.small && m.capital && m.digit && m.changes_at_least(45);
}

void append_run(std::string& out, std::string_view run, Place place) {
  if (run.find('/') == run.npos) {
    out += has_random_part(run, place) ? kMask : run;
    return;
  }
  if (place == Place::text && is_blob(run)) {
    out += kMask;
    return;
  }
  for (size_t at = 0; at <= run.size();) {
    const size_t end = std::min(run.find('/', at), run.size());
    const std::string_view component = run.substr(at, end - at);
    out += has_random_part(component, place) ? kMask : component;
    if (end < run.size()) {
      out += '/';
    }
    at = end + 1;
  }
}

// The end of the PEM block that starts at `at`, including its last line.
size_t pem_end(std::string_view text, size_t at) {
  constexpr std::string_view kEnd = "-----END ";
  const size_t end = text.find(kEnd, at);
  const size_t close = end == text.npos ? end : text.find("-----", end + kEnd.size());
  return close == text.npos ? text.size() : close + 5;
}

}  // namespace

std::string mask_secret_shapes(std::string_view text) {
  std::string out;
  bool in_url = false;
  for (size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("-----BEGIN ") &&
        text.substr(at, text.find('\n', at) - at).find("PRIVATE") != text.npos) {
      out += kMask;
      at = pem_end(text, at);
      continue;
    }
    const bool begins = at == 0 || !is_alnum(text[at - 1]);
    if (const size_t known = begins ? known_token(text.substr(at)) : 0; known > 0) {
      out += kMask;
      at += known;
      continue;
    }
    const char c = text[at];
    if (!is_run_char(c)) {
      in_url =
          (in_url || text.substr(at).starts_with("://")) && c != ' ' && c != '\n' && c != '\'' && c != '"';
      out += c;
      ++at;
      continue;
    }
    size_t end = at;
    // A known token may start behind a slash or a dash within the run.
    while (end < text.size() && is_run_char(text[end]) &&
           (end == at || is_alnum(text[end - 1]) || known_token(text.substr(end)) == 0)) {
      ++end;
    }
    const std::string_view run = text.substr(at, end - at);
    const bool file =
        run.find('/') != run.npos &&
        (run.front() == '/' || (at > 0 && (text[at - 1] == '.' || text[at - 1] == '~')) || !is_blob(run));
    append_run(out, run, in_url ? Place::url : file ? Place::file : Place::text);
    at = end;
  }
  return out;
}

}  // namespace xpurun::model
