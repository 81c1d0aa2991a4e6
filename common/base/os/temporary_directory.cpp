#include "common/base/os/temporary_directory.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::base {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRandomPart = "-XXXXXX";  // for mkdtemp()

// Whether the path still names the open directory: a cleaner may have removed it before this process got the
// lock.
bool still_there(const std::string& path, int fd) {
  struct stat there {};
  struct stat open {};
  return ::lstat(path.c_str(), &there) == 0 && ::fstat(fd, &open) == 0 && there.st_ino == open.st_ino &&
         there.st_dev == open.st_dev;
}

// If there is no lock, errno says why.
UniqueFd open_locked(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    fd.reset();
    errno = why;
  }
  return fd;
}

void remove_abandoned(const std::string& parent, const std::string& prefix) {
  std::error_code ec;
  for (fs::directory_iterator it(parent, fs::directory_options::skip_permission_denied, ec), end;
       !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename();
    struct stat st {};
    // The parent is usually /tmp: remove nothing but own directories with exactly mkdtemp()'s form of name.
    if (name.size() != prefix.size() + kRandomPart.size() || !name.starts_with(prefix + '-') ||
        ::lstat(it->path().c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != ::geteuid()) {
      continue;
    }
    if (const UniqueFd lock = open_locked(it->path())) {
      std::error_code ignored;
      fs::remove_all(it->path(), ignored);
    }
  }
}

}  // namespace

void TemporaryDirectory::remove() {
  if (!path_.empty()) {
    std::error_code ec;
    fs::remove_all(path_, ec);
  }
}

Result<TemporaryDirectory> TemporaryDirectory::create(const std::string& prefix) {
  std::error_code ec;
  const fs::path parent = fs::temp_directory_path(ec);
  return create_in(ec ? "/tmp" : parent.string(), prefix);
}

Result<TemporaryDirectory> TemporaryDirectory::create_in(const std::string& parent,
                                                         const std::string& prefix) {
  constexpr int kTries = 100;  // many processes may start at the same moment
  remove_abandoned(parent, prefix);
  TemporaryDirectory out;
  for (int i = 0; i < kTries; ++i) {
    std::string name = fmt::format("{}/{}{}", parent, prefix, kRandomPart);
    if (::mkdtemp(name.data()) == nullptr) {
      return fail_errno(fmt::format("cannot create a directory in {}", parent));
    }
    out.lock_ = open_locked(name);
    // A faster cleaner holds the lock or has already removed the directory. On file systems without locks
    // (some network ones) no process gets one.
    const bool taken = !out.lock_ && (errno == EWOULDBLOCK || errno == ENOENT);
    if (!taken && (!out.lock_ || still_there(name, out.lock_.get()))) {
      out.path_ = std::move(name);
      return out;
    }
  }
  return fail(fmt::format("cannot create a directory in {}: another process removes it", parent));
}

}  // namespace xpurun::base
