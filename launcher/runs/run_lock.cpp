#include "launcher/runs/run_lock.h"

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

namespace xpurun::launcher {

namespace {
base::UniqueFd open_dir(const std::string& path) {
  return base::UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}
}  // namespace

base::Result<RunLock> RunLock::take(const std::string& run_dir) {
  base::UniqueFd fd = open_dir(run_dir);
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return base::fail_errno(fmt::format("cannot lock {}", run_dir));
  }
  return RunLock(std::move(fd));
}

bool RunLock::held(const std::string& run_dir) {
  const base::UniqueFd fd = open_dir(run_dir);
  return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace xpurun::launcher
