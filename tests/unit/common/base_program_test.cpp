#include "common/base/os/child.h"
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/os/program.h"
#include "common/base/os/wait_status.h"

#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun::base;

namespace {

int wait_status_of(Pid pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

std::string read_all(int fd) {
  std::string out;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = ::read(fd, part.data(), part.size())) > 0;) {
    out.append(part.data(), static_cast<size_t>(n));
  }
  return out;
}

ProgramStart shell(const std::string& script) {
  return {.path = "/bin/sh", .argv = {"zero", "-c", script}, .env = {"WORD=a  b"}};
}

}  // namespace

TEST_CASE("the host's name is the kernel's") {
  utsname name{};
  REQUIRE(::uname(&name) == 0);
  CHECK(host_name() == name.nodename);
}

TEST_CASE("a forked child runs the body, and its result is the status") {
  for (const ChildLife life : {ChildLife::ends_with_parent, ChildLife::outlives_parent}) {
    const auto child = fork_child(life, [] { return 7; });
    REQUIRE(child);
    int status = 0;
    REQUIRE(::waitpid(*child, &status, 0) == *child);
    CHECK(WaitStatus(status) == WaitStatus::of_exit(7));
  }
}

TEST_CASE("a child that ends with its parent is killed when the parent ends") {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  const auto parent = fork_child(ChildLife::outlives_parent, [&] {
    const auto child = fork_child(ChildLife::ends_with_parent, [] {
      ::pause();
      return 0;
    });
    return child ? 3 : 4;
  });
  REQUIRE(parent);
  int status = 0;
  REQUIRE(::waitpid(*parent, &status, 0) == *parent);
  CHECK(WaitStatus(status) == WaitStatus::of_exit(3));
  // The child's copy of the pipe is closed when it dies.
  pipe->write_end.reset();
  char byte = 0;
  CHECK(::read(pipe->read_end.get(), &byte, 1) == 0);
}

TEST_CASE("a started program has the requested argv, environment and streams") {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  REQUIRE((in && out && err));
  ProgramStart start = shell("read line; echo \"$line|$WORD|$0\"; echo wrong >&2; exit 7");
  start.in = in->read_end.get();
  start.out = out->write_end.get();
  start.err = err->write_end.get();
  REQUIRE(::write(in->write_end.get(), "hello\n", 6) == 6);
  const auto pid = start_program(start);
  REQUIRE(pid);
  out->write_end.reset();
  err->write_end.reset();
  CHECK(read_all(out->read_end.get()) == "hello|a  b|zero\n");
  CHECK(read_all(err->read_end.get()) == "wrong\n");
  CHECK(wait_status_of(*pid) == 7 << 8);
}

TEST_CASE("a program can have a process group, a signal mask and an action before the exec") {
  ProgramStart start = shell("kill -TERM 0; exit 3");
  start.own_group = true;
  sigset_t mask;
  sigemptyset(&mask);
  start.signal_mask = mask;
  bool ran = false;
  start.before_exec = [&] { ran = true; };
  const auto pid = start_program(start);
  REQUIRE(pid);
  CHECK(ran);
  CHECK(wait_status_of(*pid) == SIGTERM);  // and this process lives on
  sigaddset(&mask, SIGTERM);
  start.signal_mask = mask;
  const auto blocked = start_program(start);
  REQUIRE(blocked);
  CHECK(wait_status_of(*blocked) == 3 << 8);
}

TEST_CASE("a failed exec is reported and leaves no child") {
  const auto missing = start_program({.path = "/no/such/file", .argv = {"x"}});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().sys_errno == ENOENT);
  REQUIRE(write_file_atomic("text", "exit 5\n"));
  REQUIRE(::chmod("text", 0600) == 0);
  CHECK(start_program({.path = "./text", .argv = {"x"}}).error().sys_errno == EACCES);
  CHECK(start_program({.path = "/bin/sh", .argv = {"sh"}, .in = 9999}).error().sys_errno == EBADF);
  CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

TEST_CASE("a script without an interpreter line is run by the shell") {
  REQUIRE(write_file_atomic("plain", "exit $1\n"));
  REQUIRE(::chmod("plain", 0700) == 0);
  const auto pid = start_program({.path = "./plain", .argv = {"plain", "5"}});
  REQUIRE(pid);
  CHECK(wait_status_of(*pid) == 5 << 8);
}

TEST_CASE("programs start when no descriptor is free") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int lowest_free = ::open("/dev/null", O_RDONLY);
  REQUIRE(lowest_free >= 0);
  ::close(lowest_free);
  const rlimit none{static_cast<rlim_t>(lowest_free), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool has_pipe = make_pipe().has_value();
  auto pid = start_program({.path = "/bin/sh", .argv = {"sh", "-c", "exit 4"}, .before_exec = [&] {
                              (void)::setrlimit(RLIMIT_NOFILE, &before);
                            }});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(has_pipe);
  REQUIRE(pid);
  CHECK(wait_status_of(*pid) == 4 << 8);
}

TEST_CASE("programs are found as execvp(3) finds them") {
  CHECK(find_program("sh"));
  CHECK(find_program("/bin/sh") == std::string("/bin/sh"));
  CHECK(find_program("no-such-program").error().sys_errno == ENOENT);
  CHECK(find_program("").error().sys_errno == ENOENT);
  CHECK(find_program("/etc/passwd").error().sys_errno == EACCES);
  CHECK(find_program("/").error().sys_errno == EACCES);
}
