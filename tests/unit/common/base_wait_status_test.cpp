#include "common/base/os/wait_status.h"

#include <doctest/doctest.h>

#include <csignal>

using xpurun::base::WaitStatus;

TEST_CASE("a wait status distinguishes exit, signal and unknown") {
  CHECK(WaitStatus(3 << 8) == WaitStatus::of_exit(3));
  CHECK(WaitStatus::of_exit(3).exit_code() == 3);
  CHECK(WaitStatus::of_exit(3).failed());
  CHECK(WaitStatus::of_exit(0).succeeded());
  CHECK(WaitStatus::of_signal(SIGKILL).signal() == SIGKILL);
  CHECK(WaitStatus::of_signal(SIGKILL).exit_code() == -1);
  CHECK(WaitStatus(SIGSEGV | 0x80).signal() == SIGSEGV);  // with a core file
  const WaitStatus unknown(-7);
  CHECK(unknown == WaitStatus());
  CHECK_FALSE(unknown.known());
  CHECK_FALSE(unknown.failed());
  CHECK_FALSE(unknown.succeeded());
  CHECK(unknown.signal() == 0);
  CHECK(unknown.raw() == -1);
}

TEST_CASE("a wait status as text") {
  CHECK(WaitStatus::of_exit(1).text() == "exited with status 1");
  CHECK(WaitStatus::of_signal(SIGKILL).text() == "killed by SIGKILL");
  CHECK(WaitStatus::of_signal(60).text() == "killed by signal 60");
  CHECK(WaitStatus().text() == "ended");
}
