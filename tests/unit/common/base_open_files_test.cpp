#include "common/base/os/open_files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sys/socket.h>
#include <unistd.h>

using namespace xpurun::base;

namespace {

std::string name_of_descriptor(int fd) {
  return ProcFs().link(::getpid(), fmt::format("fd/{}", fd));
}

}  // namespace

TEST_CASE("who has an end of a pipe open, by its purpose") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const ProcFs proc;
  const std::string pipe = name_of_descriptor(ends[0]);
  const std::vector<Pid> own = {::getpid()};
  CHECK(other_end(proc, pipe, OpenFor::reading) == own);
  CHECK(other_end(proc, pipe, OpenFor::writing) == own);
  ::close(ends[1]);
  CHECK(has_open(proc, ::getpid(), {pipe}));
  CHECK(other_end(proc, pipe, OpenFor::reading) == own);
  CHECK(other_end(proc, pipe, OpenFor::writing).empty());
  ::close(ends[0]);
  CHECK_FALSE(has_open(proc, ::getpid(), {pipe}));
  CHECK(other_end(proc, "", OpenFor::reading).empty());
  CHECK(other_end(proc, "/etc/hosts", OpenFor::reading).empty());
}

TEST_CASE("the peer of a local socket") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const std::string one = name_of_descriptor(ends[0]);
  const std::string other = name_of_descriptor(ends[1]);
  // A kernel without sock_diag for local sockets does not answer.
  if (const std::string peer = peer_of_local_socket(one); !peer.empty()) {
    CHECK(peer == other);
    CHECK(peer_of_local_socket(other) == one);
    CHECK(other_end(ProcFs(), one, OpenFor::reading) == std::vector<Pid>{::getpid()});
  }
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(peer_of_local_socket("socket:[1]").empty());
  CHECK(peer_of_local_socket("socket:[x]").empty());
  CHECK(peer_of_local_socket("pipe:[1]").empty());
}
