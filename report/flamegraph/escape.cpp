#include "report/flamegraph/escape.h"

#include "common/base/strings.h"

namespace xpurun::report {

namespace {

std::string replace(const std::string& text, bool quotes) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += quotes ? "&quot;" : "\"";
        break;
      case '\'':
        out += quotes ? "&#39;" : "'";
        break;
      case '\n':
        out += quotes ? "&#10;" : "\n";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string escape_text(std::string_view text) {
  return replace(base::sanitize_lines(text), /*quotes=*/false);
}

std::string escape_attribute(std::string_view text) {
  return replace(base::sanitize_lines(text), /*quotes=*/true);
}

std::string escape_script_json(std::string_view json) {
  std::string out;
  out.reserve(json.size() + 64);
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i, 3);
    if (rest == "\xE2\x80\xA8" || rest == "\xE2\x80\xA9") {
      out += rest[2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (json[i] == '<') {
      out += "\\u003c";
    } else if (json[i] == '>') {
      out += "\\u003e";
    } else if (json[i] == '&') {
      out += "\\u0026";
    } else if (json[i] == '\x7f') {
      out += "\\u007f";
    } else {
      out += json[i];
    }
  }
  return out;
}

}  // namespace xpurun::report
