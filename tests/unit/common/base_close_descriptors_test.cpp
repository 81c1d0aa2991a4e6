#include "common/base/os/close_descriptors.h"

#include <doctest/doctest.h>

#include <array>
#include <fcntl.h>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun::base;

namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

// In a child, because the test's own descriptors must stay: opens 200 to 209, closes those of 202 to 204 and
// from 207 on; whether exactly the others are left.
bool closes_exactly(const std::function<void(unsigned, unsigned)>& close) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (int fd = 200; fd < 210; ++fd) {
      ::dup2(STDIN_FILENO, fd);
    }
    close(202, 204);
    close(207, ~0U);
    close(201, 200);  // nothing
    constexpr std::array kLeft = {true, true, false, false, false, true, true, false, false, false};
    bool is_right = true;
    for (int i = 0; i < 10; ++i) {
      is_right = is_right && is_open(200 + i) == kLeft.at(static_cast<size_t>(i));
    }
    ::_exit(is_right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0;
}

}  // namespace

TEST_CASE("descriptors are closed by their numbers, with and without the system call") {
  CHECK(closes_exactly(close_descriptors));
  CHECK(closes_exactly(close_listed));
  CHECK_FALSE(closes_exactly([](unsigned, unsigned) {}));
}
