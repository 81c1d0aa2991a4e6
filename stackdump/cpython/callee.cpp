#include "stackdump/cpython/callee.h"

#include "common/base/fd.h"

#include <fmt/format.h>

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

// One line of a regular file, never blocking on a pipe or device that took its name.
std::string line_of(const std::string& path, int wanted) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return {};
  }
  std::string line;
  std::array<char, 65536> buffer;
  int number = 1;
  for (size_t total = 0; total < kMaxSource;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n <= 0) {
      break;
    }
    total += static_cast<size_t>(n);
    for (const char c : std::string_view(buffer.data(), static_cast<size_t>(n))) {
      if (c == '\n') {
        if (++number > wanted) {
          return line;
        }
      } else if (number == wanted) {
        line += c;
      }
    }
  }
  return line;
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

std::string callee_at(base::Pid pid, const std::string& filename, const SourceRange& range) {
  if (range.line <= 0 || range.column <= 0 || filename.empty() || filename[0] == '<') {
    return {};
  }
  const char* from = filename[0] == '/' ? "root" : "cwd/";
  return called_name(line_of(fmt::format("/proc/{}/{}{}", pid, from, filename), range.line), range.column);
}

}  // namespace xpurun::stackdump
