#include "common/base/os/io.h"
#include "launcher/os/unix_socket.h"
#include "launcher/storage/direct_storage.h"
#include "launcher/storage/socket_place.h"

#include <doctest/doctest.h>

#include <sys/socket.h>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("sockets are in the run directory if it can hold them") {
  REQUIRE(base::make_dirs("sp-run"));
  const auto place = SocketPlace::choose(facts_of("sp-run"));
  REQUIRE(place);
  CHECK(place->in_run_dir());
  CHECK(place->path(SocketPlace::kControl).starts_with("/"));
}

TEST_CASE("if the run directory cannot hold sockets, another directory is used and cleaned up") {
  DirFacts remote = facts_of("sp-run");
  remote.local = false;
  // Nothing can be created below it, as on FUSE without mknod.
  const DirFacts refusing{.path = "/proc/self", .absolute = "/proc/self", .local = true};
  const DirFacts too_long{.path = "x", .absolute = "/" + std::string(200, 'x'), .local = true};
  for (const DirFacts& dir : {remote, refusing, too_long}) {
    const auto place = SocketPlace::choose(dir);
    REQUIRE(place);
    CHECK_FALSE(place->in_run_dir());
    const std::string path = place->path(SocketPlace::kNotice);
    {
      const auto listening = listen_unix(path, SOCK_STREAM);
      REQUIRE(listening);
    }
    DirectStorage storage;
    place->remove(storage);
    CHECK_FALSE(base::file_exists(path.substr(0, path.rfind('/'))));
  }
}
