#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "tests/support/fake_clock.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <initializer_list>
#include <poll.h>
#include <stdlib.h>
#include <string>
#include <termios.h>
#include <unistd.h>

using namespace xpurun::base;
using xpurun::testing::FakeClock;

TEST_CASE("the text of progress") {
  CHECK(progress_text("reading", 256, 1024, 3, 80) == "reading [#####...............] 256/1024, 3.0 s");
  CHECK(progress_text("reading", 1024, 1024, 3, 80) == "reading [####################] 1024/1024, 3.0 s");
  CHECK(progress_text("reading", 256, 1024, 3, 30) == "reading 256/1024");
  CHECK(progress_text("drawing", 0, 0, 2.5, 40) == "drawing, 2.5 s");
  for (size_t columns : {0, 5, 10, 20, 39}) {
    CHECK(display_width(progress_text("reading", 9, 10, 1, columns)) <= columns);
  }
}

namespace {

// A terminal and the text that a person would see on it.
class Pty {
 public:
  Pty() {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(master_ >= 0);
    REQUIRE(::grantpt(master_) == 0);
    REQUIRE(::unlockpt(master_) == 0);
    terminal_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(terminal_ >= 0);
  }
  ~Pty() {
    ::close(terminal_);
    ::close(master_);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;

  int terminal() const { return terminal_; }

  // Everything written since the last call. The kernel delivers the text asynchronously, so this function
  // writes a mark after the text and waits for the mark.
  std::string written() {
    REQUIRE(::write(terminal_, "\1", 1) == 1);
    std::string out;
    pollfd waiting{.fd = master_, .events = POLLIN, .revents = 0};
    while (out.find('\1') == std::string::npos) {
      REQUIRE(::poll(&waiting, 1, 60'000) == 1);
      char buf[4096];
      const ssize_t n = ::read(master_, buf, sizeof buf);
      REQUIRE(n > 0);
      out.append(buf, static_cast<size_t>(n));
    }
    out.pop_back();
    return out;
  }

 private:
  int master_ = -1;
  int terminal_ = -1;
};

}  // namespace

TEST_CASE("progress appears on a terminal after a second and leaves nothing behind") {
  Pty pty;
  ::setenv("TERM", "xterm", 1);
  allow_progress(pty.terminal());
  {
    Progress quick("quick", 3, FakeClock::read);
    FakeClock::advance_s(0.99);
    quick.advance(3);
  }
  CHECK(pty.written().empty());
  {
    Progress slow("slow", 2, FakeClock::read);
    FakeClock::advance_s(1.05);
    slow.advance();
    CHECK(pty.written() == "\rslow [##########..........] 1/2, 1.1 s\x1b[K");
  }
  CHECK(pty.written() == "\r\x1b[K");
  ::setenv("TERM", "dumb", 1);
  allow_progress(pty.terminal());
  {
    Progress slow("slow", 2, FakeClock::read);
    FakeClock::advance_s(1.05);
    slow.advance();
  }
  CHECK(pty.written().empty());
}
