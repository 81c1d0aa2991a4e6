#include "launcher/options/exit_status.h"

#include <doctest/doctest.h>

#include <csignal>
#include <initializer_list>

using namespace xpurun::launcher;

namespace {
// Wait statuses as the kernel makes them (wait(2)).
using xpurun::base::WaitStatus;
constexpr WaitStatus status_of_exit(int code) {
  return WaitStatus::of_exit(code);
}
constexpr WaitStatus status_of_signal(int signal) {
  return WaitStatus::of_signal(signal);
}
constexpr int kCoreDumped = 0x80;
}  // namespace

TEST_CASE("the command's own status passes through") {
  for (int code : {0, 1, 2, 42, 123, 124, 125, 126, 127, 128, 137, 139, 247, 255}) {
    CAPTURE(code);
    CHECK(exit_status({.wait_status = status_of_exit(code)}) == code);
  }
}

TEST_CASE("a command that died of a signal") {
  CHECK(exit_status({.wait_status = status_of_signal(SIGKILL)}) == 137);
  CHECK(exit_status({.wait_status = status_of_signal(SIGTERM)}) == 143);
  CHECK(exit_status({.wait_status = WaitStatus(SIGSEGV | kCoreDumped)}) == 139);
  SUBCASE("the command's signal takes precedence over a rank's, as in a shell") {
    CHECK(exit_status({.wait_status = status_of_signal(SIGINT), .root_cause_signal = SIGKILL}) == 130);
  }
}

TEST_CASE("a launcher that hides the signal of its rank") {
  CHECK(exit_status({.wait_status = status_of_exit(1), .root_cause_signal = SIGSEGV}) == 139);
  CHECK(exit_status({.wait_status = status_of_exit(247), .root_cause_signal = SIGKILL}) == 137);
  SUBCASE("success stays success, because the launcher may have restarted the rank") {
    CHECK(exit_status({.wait_status = status_of_exit(0), .root_cause_signal = SIGSEGV}) == 0);
  }
}

TEST_CASE("a hang that xpurun ended is 124, whatever the job's status") {
  for (WaitStatus status : {status_of_exit(0), status_of_exit(1), status_of_signal(SIGTERM),
                            status_of_signal(SIGKILL), WaitStatus()}) {
    CHECK(exit_status({.wait_status = status, .end = JobEnd::hang_ended, .root_cause_signal = SIGTERM}) ==
          124);
  }
}

TEST_CASE("failures of xpurun itself") {
  CHECK(exit_status({}) == 125);
}
