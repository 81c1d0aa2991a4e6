#include "launcher/storage/socket_place.h"

#include "launcher/os/unix_socket.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace xpurun::launcher {

namespace {

base::Status try_socket(const std::string& dir) {
  const std::string path = fmt::format("{}/{}", dir, SocketPlace::kControl);
  const auto listening = listen_unix(path, SOCK_STREAM);
  if (!listening) {
    return base::fail(listening.error());
  }
  ::unlink(path.c_str());
  return {};
}

}  // namespace

base::Result<SocketPlace> SocketPlace::choose(const DirFacts& run_dir) {
  base::Status first = base::fail(fmt::format("{} is on a network or FUSE file system", run_dir.absolute));
  if (run_dir.local) {
    first = try_socket(run_dir.absolute);
    if (first) {
      return SocketPlace(run_dir.absolute, false);
    }
  }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  std::vector<std::string> parents = {"/tmp", "/dev/shm"};
  if (runtime != nullptr && *runtime == '/') {
    parents.insert(parents.begin(), runtime);
  }
  for (const std::string& parent : parents) {
    std::string dir = parent + "/xpurun-XXXXXX";
    if (::mkdtemp(dir.data()) == nullptr) {
      continue;
    }
    if (try_socket(dir)) {
      return SocketPlace(dir, true);
    }
    ::rmdir(dir.c_str());
  }
  return base::fail(std::move(first.error()));
}

std::string SocketPlace::path(std::string_view name) const {
  return fmt::format("{}/{}", dir_, name);
}

void SocketPlace::remove(Storage& storage) const {
  for (const std::string_view name : {kNotice, kControl}) {
    if (own_) {
      ::unlink(path(name).c_str());
    } else {
      storage.remove(path(name));
    }
  }
  if (own_) {
    ::rmdir(dir_.c_str());
  }
}

}  // namespace xpurun::launcher
