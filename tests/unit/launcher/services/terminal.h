// A terminal of a test: a pseudoterminal whose other end the test reads.
#pragma once

#include "common/base/os/fd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace xpurun::test {

class Terminal {
 public:
  Terminal(int rows, int columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)) {
    REQUIRE(master_);
    REQUIRE(::grantpt(master_.get()) == 0);
    REQUIRE(::unlockpt(master_.get()) == 0);
    char name[64] = {};
    REQUIRE(::ptsname_r(master_.get(), name, sizeof name) == 0);
    fd_.reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
    REQUIRE(fd_);
    termios raw{};
    REQUIRE(::tcgetattr(fd_.get(), &raw) == 0);
    ::cfmakeraw(&raw);
    REQUIRE(::tcsetattr(fd_.get(), TCSANOW, &raw) == 0);
    resize(rows, columns);
  }

  int fd() const { return fd_.get(); }
  void resize(int rows, int columns) const {
    winsize size{};
    size.ws_row = static_cast<unsigned short>(rows);
    size.ws_col = static_cast<unsigned short>(columns);
    REQUIRE(::ioctl(fd_.get(), TIOCSWINSZ, &size) == 0);
  }
  // Makes it the terminal of this process, which must not lead a process group.
  void become_ours() const {
    ::signal(SIGHUP, SIG_IGN);  // the end of the terminal must not end the test
    REQUIRE(::setsid() > 0);
    REQUIRE(::ioctl(fd_.get(), TIOCSCTTY, 0) == 0);
  }
  // As by Ctrl-S: accepts nothing until go_on().
  void stop() const { REQUIRE(::tcflow(fd_.get(), TCOOFF) == 0); }
  void go_on() const { REQUIRE(::tcflow(fd_.get(), TCOON) == 0); }
  // Nothing more can be written until something is read.
  bool full() const {
    pollfd waiting{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    return ::poll(&waiting, 1, 0) == 0;
  }
  // What can be read now, with ESC as '^'.
  std::string ready() const {
    char chunk[4096];
    const ssize_t n = ::read(master_.get(), chunk, sizeof chunk);
    std::string out(chunk, n > 0 ? static_cast<size_t>(n) : 0);
    std::replace(out.begin(), out.end(), '\x1b', '^');
    return out;
  }
  // What was written since the last call, with ESC as '^'.
  std::string seen() const {
    // The kernel passes bytes on later, but in order: when the mark has come, all earlier bytes have.
    REQUIRE(::write(fd_.get(), &kMark, 1) == 1);
    std::string out;
    while (!out.ends_with(kMark)) {
      pollfd waiting{.fd = master_.get(), .events = POLLIN, .revents = 0};
      REQUIRE(::poll(&waiting, 1, 10'000) == 1);
      out += ready();
    }
    out.pop_back();
    return out;
  }

 private:
  static constexpr char kMark = '\x01';

  base::UniqueFd master_;
  base::UniqueFd fd_;
};

}  // namespace xpurun::test
