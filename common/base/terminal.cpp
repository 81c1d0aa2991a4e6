#include "common/base/terminal.h"

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

}  // namespace xpurun::base
