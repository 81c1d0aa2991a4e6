#include "launcher/processes/death_ledger.h"

#include <doctest/doctest.h>

#include <signal.h>

using xpurun::base::WaitStatus;
using xpurun::launcher::DeathLedger;

namespace {
constexpr WaitStatus kUnknown;
constexpr WaitStatus exited(int code) {
  return WaitStatus::of_exit(code);
}
constexpr WaitStatus killed(int signal) {
  return WaitStatus::of_signal(signal);
}
}  // namespace

TEST_CASE("the first failure is a root cause, the launcher's later TERMs are followers") {
  DeathLedger ledger;
  const auto first = ledger.record(10, 1.0, killed(SIGSEGV));
  CHECK(first.order == 1);
  CHECK_FALSE(first.follower);
  ledger.termination_notice(11, 5, true);
  const auto second = ledger.record(11, 1.1, killed(SIGTERM));
  CHECK(second.follower);
  CHECK(second.cause_hint == "ended by the launcher");
  CHECK(ledger.record(12, 1.2, killed(SIGKILL)).follower);
}

TEST_CASE("a clean exit is neither a failure nor a reason for TERM") {
  DeathLedger ledger;
  CHECK_FALSE(ledger.record(10, 1, exited(0)).follower);
  CHECK_FALSE(ledger.failure_seen());
  const auto second = ledger.record(11, 2, killed(SIGKILL));
  CHECK_FALSE(second.follower);
  CHECK(ledger.failure_seen());
}

TEST_CASE("a TERM from outside is the cause and names its sender") {
  DeathLedger ledger;
  ledger.termination_notice(10, 999, false);
  const auto d = ledger.record(10, 1, killed(SIGTERM));
  CHECK_FALSE(d.follower);
  CHECK(d.cause_hint == "SIGTERM from pid 999");
}

TEST_CASE("a death caused by xpurun or the user is never the root cause") {
  DeathLedger ours;
  ours.we_are_ending_the_job();
  CHECK(ours.record(10, 1, killed(SIGKILL)).cause_hint == "ended by xpurun");
  CHECK_FALSE(ours.failure_seen());
  DeathLedger users;
  users.signal_was_forwarded(SIGINT);
  CHECK(users.record(10, 1, exited(1)).follower);
}

TEST_CASE("an unknown wait status counts as a failure") {
  DeathLedger ledger;
  CHECK_FALSE(ledger.record(10, 1, kUnknown).follower);
  CHECK(ledger.failure_seen());
}

TEST_CASE("only processes that xpurun ends for a restart count as its consequences") {
  DeathLedger ledger;
  ledger.we_are_ending(10);
  CHECK(ledger.record(10, 1.0, exited(1)).follower);
  CHECK_FALSE(ledger.failure_seen());
  CHECK_FALSE(ledger.record(11, 1.1, killed(SIGSEGV)).follower);
  CHECK(ledger.failure_seen());
}
