#include "common/base/progress.h"
#include "common/base/strings.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <initializer_list>
#include <poll.h>
#include <stdlib.h>
#include <string>
#include <termios.h>
#include <unistd.h>

using namespace xpurun::base;

TEST_CASE("what progress looks like") {
  CHECK(progress_text("reading", 256, 1024, 3, 80) == "reading [#####...............] 256/1024, 3.0 s");
  CHECK(progress_text("reading", 1024, 1024, 3, 80) == "reading [####################] 1024/1024, 3.0 s");
  CHECK(progress_text("reading", 256, 1024, 3, 30) == "reading 256/1024");
  CHECK(progress_text("drawing", 0, 0, 2.5, 40) == "drawing, 2.5 s");
  for (size_t columns : {0, 5, 10, 20, 39}) {
    CHECK(display_width(progress_text("reading", 9, 10, 1, columns)) <= columns);
  }
}

TEST_CASE("progress on a terminal, after a second, and then no trace of it") {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(master >= 0);
  REQUIRE(::grantpt(master) == 0);
  REQUIRE(::unlockpt(master) == 0);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(terminal >= 0);
  const auto written = [&] {
    std::string out;
    char buf[4096];
    pollfd waiting{.fd = master, .events = POLLIN, .revents = 0};
    while (::poll(&waiting, 1, 50) == 1) {
      const ssize_t n = ::read(master, buf, sizeof buf);
      if (n <= 0) {
        break;
      }
      out.append(buf, static_cast<size_t>(n));
    }
    return out;
  };
  ::setenv("TERM", "xterm", 1);
  allow_progress(terminal);
  {
    Progress quick("quick", 3);
    quick.advance(3);
  }
  CHECK(written().empty());
  {
    Progress slow("slow", 2);
    ::usleep(1'050'000);
    slow.advance();
    CHECK(written().find("slow [##########..........] 1/2, 1.") != std::string::npos);
  }
  CHECK(written() == "\r\x1b[K");
  ::setenv("TERM", "dumb", 1);
  allow_progress(terminal);
  {
    Progress slow("slow", 2);
    ::usleep(1'050'000);
    slow.advance();
  }
  CHECK(written().empty());
  ::close(terminal);
  ::close(master);
}
