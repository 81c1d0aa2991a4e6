#include "common/base/output/terminal.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <cstdlib>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace xpurun::base {

namespace {
bool env_set(const char* name) {
  const char* v = std::getenv(name);
  return v != nullptr && *v != '\0';
}
}  // namespace

bool is_terminal(int fd) {
  return ::isatty(fd) == 1;
}

bool colour_allowed(int fd) {
  if (env_set("NO_COLOR")) {
    return false;
  }
  if (env_set("FORCE_COLOR") || env_set("CLICOLOR_FORCE")) {
    return true;
  }
  const char* term = std::getenv("TERM");
  return is_terminal(fd) && term != nullptr && std::string_view(term) != "dumb";
}

size_t terminal_columns(int fd, size_t fallback) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  if (const char* columns = std::getenv("COLUMNS")) {
    if (auto n = parse_int(columns); n && *n > 0) {
      return static_cast<size_t>(*n);
    }
  }
  return fallback;
}

void write_stderr(std::string_view text) {
  (void)write_all(STDERR_FILENO, sanitize_lines(text));
}

Status put_out(std::string_view text) {
  return is_terminal(STDOUT_FILENO) ? write_all(STDOUT_FILENO, sanitize_coloured(text))
                                    : write_all(STDOUT_FILENO, text);
}

std::string sanitize_coloured(std::string_view text) {
  constexpr std::string_view kBegin = "\x1b[";
  std::string out;
  for (;;) {
    const size_t at = text.find(kBegin);
    if (at == std::string_view::npos) {
      return out + sanitize_lines(text);
    }
    const size_t end = text.find_first_not_of("0123456789;", at + kBegin.size());
    const bool colour = end != std::string_view::npos && text[end] == 'm';
    const size_t end_of_cut = colour ? end + 1 : at + 1;
    out += sanitize_lines(text.substr(0, colour ? at : end_of_cut));
    if (colour) {
      out += text.substr(at, end_of_cut - at);
    }
    text.remove_prefix(end_of_cut);
  }
}

}  // namespace xpurun::base
