#include "launcher/output/footer.h"

#include "common/base/output/terminal.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fcntl.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr int kFewestRows = 6;
// A terminal that accepts nothing for this time is stopped. A stale line is better than a blocked supervisor.
constexpr int kPatienceMs = 100;

winsize size_of(int fd) {
  winsize size{};
  (void)::ioctl(fd, TIOCGWINSZ, &size);
  return size;
}

bool understands_escapes() {
  const char* term = std::getenv("TERM");
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

}  // namespace

Footer::Footer(int fd, FooterRecord& record) : record_(record) {
  if (base::is_terminal(fd) && understands_escapes()) {
    // Opened again: O_NONBLOCK belongs to the open file, which the ranks share.
    terminal_.reset(
        ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  }
}

bool Footer::usable() const {
  return terminal_ && size_of(terminal_.get()).ws_row >= kFewestRows &&
         ::tcgetpgrp(terminal_.get()) == ::getpgrp();
}

size_t Footer::columns() const {
  // The last column stays free: some terminals wrap when it is written.
  const size_t columns = terminal_ ? size_of(terminal_.get()).ws_col : 0;
  return columns > 1 ? columns - 1 : 0;
}

bool Footer::put(const std::string& bytes) const {
  return put_on_terminal(terminal_.get(), bytes, kPatienceMs);
}

void Footer::show(const std::string& text) {
  const int rows = terminal_ ? size_of(terminal_.get()).ws_row : 0;
  if (rows < kFewestRows) {
    return;
  }
  std::string out;
  if (rows != rows_) {
    if (rows_ != 0 && rows_ < rows) {
      out += line_removal(rows_);
    }
    // Moves down and up again, scrolling if needed, so that the cursor is above the last row in the same
    // column.
    out += fmt::format(
        "\x1b"
        "D\x1b[A\x1b"
        "7\x1b[1;{}r\x1b"
        "8",
        rows - 1);
    // First: a supervisor that is killed right after the write has a line on the terminal.
    record_.set_row(rows);
  }
  out += fmt::format(
      "\x1b"
      "7\x1b[{};1H\x1b[2K\x1b[2m{}\x1b[0m\x1b"
      "8",
      rows, text);
  // If the row could not be reserved, the next call tries again.
  rows_ = put(out) || rows == rows_ ? rows : 0;
}

void Footer::hide() {
  if (rows_ != 0) {
    const bool removed = put(line_removal(std::exchange(rows_, 0)));
    record_.set_row(removed ? 0 : record_.row());
  }
}

}  // namespace xpurun::launcher
