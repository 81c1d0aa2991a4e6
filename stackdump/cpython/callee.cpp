#include "stackdump/cpython/callee.h"

#include "common/base/os/fd.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/stat.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxSource = size_t{8} << 20;
constexpr size_t kMaxName = 200;
constexpr std::array<std::string_view, 14> kKeywords = {"and", "assert", "await", "elif",   "else",
                                                        "if",  "in",     "is",    "lambda", "not",
                                                        "or",  "return", "while", "yield"};

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool continues_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9');
}

// Reads lines of a regular file only: opening a pipe or device with the same name could block.
std::string lines_of(const std::string& path, int first, int last) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return {};
  }
  std::string lines;
  std::array<char, 65536> buffer;
  int number = 1;
  for (size_t total = 0; total < kMaxSource;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n <= 0) {
      break;
    }
    total += static_cast<size_t>(n);
    for (const char c : std::string_view(buffer.data(), static_cast<size_t>(n))) {
      if (c == '\n' && ++number > last) {
        return lines;
      }
      if (number >= first && (c != '\n' || number > first)) {
        lines += c;
      }
    }
  }
  return lines;
}

}  // namespace

std::string called_name(std::string_view line, int column) {
  if (column < 1 || static_cast<size_t>(column) > line.size()) {
    return {};
  }
  const size_t begin = static_cast<size_t>(column) - 1;
  size_t at = begin;
  for (;;) {
    const size_t word = at;
    if (at >= line.size() || !starts_name(line[at])) {
      return {};
    }
    while (at < line.size() && continues_name(line[at])) {
      ++at;
    }
    if (std::find(kKeywords.begin(), kKeywords.end(), line.substr(word, at - word)) != kKeywords.end()) {
      return {};
    }
    if (at < line.size() && line[at] == '.') {
      ++at;
      continue;
    }
    break;
  }
  if (at >= line.size() || line[at] != '(' || at - begin > kMaxName) {
    return {};
  }
  return std::string(line.substr(begin, at - begin));
}

std::string called_by(std::string_view expression) {
  std::string name = called_name(expression, 1);
  size_t at = name.size();
  int depth = 0;
  char quote = 0;
  while (!name.empty() && at < expression.size()) {
    const char c = expression[at];
    if (quote != 0) {
      at += c == '\\' ? 1 : 0;
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      at = std::min(expression.find('\n', at), expression.size());
    } else if (c == '(' || c == ')') {
      depth += c == '(' ? 1 : -1;
      if (depth == 0) {
        return at + 1 == expression.size() ? name : std::string();
      }
    }
    ++at;
  }
  return {};
}

std::string sole_called_name(std::string_view line) {
  std::string found;
  char quote = 0;
  bool defines = false;  // the previous word was def or class
  for (size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (quote != 0) {
      at += c == '\\' ? 2 : 1;
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
      ++at;
    } else if (c == '#') {
      break;
    } else if (starts_name(c)) {
      const size_t begin = at;
      while (at < line.size() && (continues_name(line[at]) || line[at] == '.')) {
        ++at;
      }
      const std::string_view word = line.substr(begin, at - begin);
      const std::string name = called_name(line, static_cast<int>(begin) + 1);
      const bool call = at < line.size() && line[at] == '(';
      if (call && !defines && name.empty() &&
          std::find(kKeywords.begin(), kKeywords.end(), word) == kKeywords.end()) {
        return {};
      }
      if (!name.empty() && !defines) {
        if (!found.empty()) {
          return {};
        }
        found = name;
      }
      defines = word == "def" || word == "class";
    } else {
      // A callee that is itself an expression has no name: a[0](x), f()(x), (g or h)(x).
      if (c == '(' && at > 0 && (line[at - 1] == ')' || line[at - 1] == ']')) {
        return {};
      }
      // In f().g(x) the call of g has no dotted name.
      if (c == '.' && at > 0 && (line[at - 1] == ')' || line[at - 1] == ']')) {
        return {};
      }
      ++at;
    }
  }
  return quote == 0 ? found : std::string();
}

std::string callee_at(const std::string& path, const SourceRange& range) {
  if (range.line <= 0 || path.empty()) {
    return {};
  }
  constexpr int kMostLines = 1000;
  const int last = std::clamp(range.end_line, range.line, range.line + kMostLines);
  const std::string text = lines_of(path, range.line, last);
  if (range.column <= 0) {
    return sole_called_name(text);
  }
  const size_t begin = static_cast<size_t>(range.column) - 1;
  const size_t last_line = last == range.line ? 0 : text.rfind('\n') + 1;
  const size_t end = last_line + static_cast<size_t>(std::max(range.end_column, 1)) - 1;
  if (last != range.end_line || end <= begin || end > text.size()) {
    return called_name(text, range.column);
  }
  // An attribute lookup is not a call yet, but its name is equally informative.
  const std::string name = called_name(text, range.column);
  return begin + name.size() == end ? name : called_by(std::string_view(text).substr(begin, end - begin));
}

}  // namespace xpurun::stackdump
