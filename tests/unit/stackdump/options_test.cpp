#include "stackdump/options.h"

#include "stackdump/cpython/locate.h"
#include "stackdump/ptrace/access.h"
#include "stackdump/resolve/position.h"

#include <doctest/doctest.h>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun::stackdump;

TEST_CASE("options are strict") {
  const auto o = parse_options({"--pid", "12", "--out=/x y", "--rank", "3", "--crash-tid", "13",
                                "--crash-ucontext", "0x7f00", "--barrier", "--deadline-ms=50"});
  REQUIRE(o);
  CHECK(o->target.pid == 12);
  CHECK(o->out == "/x y");
  CHECK(o->rank == 3);
  CHECK(o->local_rank == -1);
  CHECK(o->barrier);
  CHECK(o->target.crash_ucontext == 0x7f00);
  CHECK(o->target.deadline_ns == 50'000'000);
  CHECK_FALSE(parse_options({}));
  CHECK_FALSE(parse_options({"--pid", "12"}));
  CHECK_FALSE(parse_options({"--pid", "0", "--out", "x"}));
  CHECK_FALSE(parse_options({"--pid", "99999999999", "--out", "x"}));
  CHECK_FALSE(parse_options({"--pid", "1x", "--out", "x"}));
  CHECK_FALSE(parse_options({"--pid", "1", "--out", "x", "--what", "y"}));
  CHECK_FALSE(parse_options({"--pid", "1", "--out", "x", "--rank"}));
  CHECK_FALSE(parse_options({"--pid", "1", "--out", "x", "--crash-tid", "2"}));
}

TEST_CASE("versions are derived from file names") {
  CHECK(minor_from_path("/usr/lib/libpython3.12.so.1.0") == 12);
  CHECK(minor_from_path("/usr/bin/python3.9") == 9);
  CHECK(minor_from_path("python3.13t") == 13);
  CHECK_FALSE(minor_from_path("/usr/bin/python3"));
  CHECK_FALSE(minor_from_path("/usr/lib/libpython3.so"));
  CHECK_FALSE(minor_from_path("/opt/app/server"));
}

TEST_CASE("a process without Python, a zombie and a missing process are distinguished") {
  const auto self = PositionReader::open(::getpid());
  REQUIRE_FALSE(self);
  CHECK(self.error().what.find("no Python") != std::string::npos);
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(0);
  }
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  const auto zombie = check_alive(child);
  REQUIRE_FALSE(zombie);
  CHECK(zombie.error().id == "E-NO-PROCESS");
  CHECK(zombie.error().cause.find("zombie") != std::string::npos);
  ::waitpid(child, nullptr, 0);
  const auto gone = check_alive(child);
  REQUIRE_FALSE(gone);
  CHECK(gone.error().id == "E-NO-PROCESS");
  CHECK_FALSE(gone.error().hint.empty());
  CHECK_FALSE(PositionReader::open(child));
  CHECK(check_alive(::getpid()));
}
