#include "launcher/stacks/live_targets.h"

#include <doctest/doctest.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("lists of process ids may have any separators, other words are errors") {
  CHECK(parse_pids("12").value() == std::vector<base::Pid>{12});
  CHECK(parse_pids(" 12,13\n14\n").value() == std::vector<base::Pid>{12, 13, 14});
  for (const char* bad : {"", " \n", "0", "-3", "12a", "0x10", "99999999999", "1 two"}) {
    CHECK_FALSE(parse_pids(bad));
  }
}

namespace {

// For a child: sleeps until `parent` dies. If the parent died before prctl(), no signal comes, hence the
// check.
[[noreturn]] void sleep_with(base::Pid parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (::getppid() == parent) {
    ::pause();
  }
  ::_exit(0);
}

}  // namespace

TEST_CASE("descendants are found at any depth, except below excluded processes") {
  const base::Pid self = ::getpid();
  const base::Pid child = ::fork();
  if (child == 0) {
    const base::Pid parent = ::getpid();
    if (::fork() == 0) {
      sleep_with(parent);
    }
    sleep_with(self);
  }
  const base::ProcFs proc;
  std::vector<base::Pid> found;
  for (int i = 0; i < 30'000 && found.size() < 3; ++i) {
    found = with_descendants(proc, {::getpid()}, 0);
    ::usleep(2000);
  }
  REQUIRE(found.size() == 3);
  CHECK(found[0] == ::getpid());
  CHECK(found[1] == child);
  CHECK(with_descendants(proc, {::getpid()}, child) == std::vector<base::Pid>{::getpid()});
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("ended descendants are omitted, but an ended process given by pid is not") {
  const base::Pid child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);  // a zombie now
  const base::ProcFs proc;
  CHECK(has_ended(proc, child));
  CHECK_FALSE(has_ended(proc, ::getpid()));
  CHECK(with_descendants(proc, {::getpid()}, 0) == std::vector<base::Pid>{::getpid()});
  CHECK(with_descendants(proc, {child}, 0) == std::vector<base::Pid>{child});
  ::waitpid(child, nullptr, 0);
  CHECK(has_ended(proc, child));
}

TEST_CASE("a process is a target once, and a missing process stays a target") {
  const auto targets = identify_targets(base::ProcFs(), {::getpid(), 2'000'000'000, ::getpid()});
  REQUIRE(targets.size() == 2);
  CHECK(targets[0].role == model::ProcessRole::other);
  CHECK(targets[1].pid == 2'000'000'000);
}
