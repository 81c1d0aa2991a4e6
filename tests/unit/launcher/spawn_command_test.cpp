#include "common/base/os/io.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "launcher/spawn/preload_reach.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {
int run(std::vector<std::string> argv) {
  Command command{.argv = std::move(argv), .env = current_environment()};
  sigemptyset(&command.signal_mask);
  const auto pid = spawn_command(command);
  REQUIRE(pid);
  int status = 0;
  REQUIRE(::waitpid(*pid, &status, 0) == *pid);
  return status;
}
}  // namespace

TEST_CASE("programs are found as execvp would") {
  CHECK(resolve_program("sh"));
  CHECK(resolve_program("no-such-program").error().id == "E-NOT-FOUND");
  CHECK(resolve_program("./no-such-file").error().id == "E-NOT-FOUND");
  CHECK(resolve_program("/etc/passwd").error().id == "E-NOT-EXECUTABLE");
  CHECK(resolve_program("/").error().id == "E-NOT-EXECUTABLE");
  CHECK(resolve_program("").error().id == "E-NOT-FOUND");
}

TEST_CASE("the command gets its argv byte for byte, argv[0] included") {
  CHECK(run({"sh", "-c", "test \"$0|$1|$2\" = 'zero|a  b|'", "zero", "a  b", ""}) == 0);
  CHECK(run({"/bin/sh", "-c", "exit 7"}) == 7 << 8);
  CHECK(run({"sh", "-c", "kill -9 $$"}) == 9);
}

TEST_CASE(
    "a script without an interpreter line is run by the shell, one with a missing interpreter is named") {
  REQUIRE(base::write_file_atomic("plain", "exit 5\n"));
  REQUIRE(base::write_file_atomic("broken", "#!/no/such/interpreter\n"));
  ::chmod("plain", 0700);
  ::chmod("broken", 0700);
  CHECK(run({"./plain"}) == 5 << 8);
  const auto broken = spawn_command({.argv = {"./broken"}, .env = current_environment()});
  REQUIRE_FALSE(broken);
  CHECK(broken.error().id == "E-NOT-FOUND");
  CHECK(broken.error().cause.find("interpreter") != std::string::npos);
}

TEST_CASE("programs that LD_PRELOAD cannot reach are reported with the reason") {
  CHECK(preload_reach("/bin/sh").fact.empty());
  CHECK(preload_reach("/usr/bin/env").fact.empty());
  CHECK(preload_reach("/no/such/file").fact.empty());
  // A set-user-id program of the same user changes nothing; a program of another user does.
  REQUIRE(base::write_file_atomic("mine", "x"));
  REQUIRE(::chmod("mine", 06700) == 0);
  CHECK(preload_reach("mine").fact.empty());
  if (::geteuid() == 0) {
    for (const auto& [uid, gid, mode] : {std::tuple{12345, 0, 04755}, {0, 12345, 02755}}) {
      REQUIRE(::chown("mine", uid, gid) == 0);
      REQUIRE(::chmod("mine", mode) == 0);
      CHECK(preload_reach("mine").fact.find("set-user-id") == 0);
      REQUIRE(::chmod("mine", 0755) == 0);
      CHECK(preload_reach("mine").fact.empty());
    }
  } else {
    CHECK(preload_reach("/usr/bin/su").fact.find("set-user-id") == 0);
  }
}
