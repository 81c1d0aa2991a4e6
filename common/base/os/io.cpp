#include "common/base/os/io.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <sys/stat.h>

namespace xpurun::base {

Result<UniqueFd> open_read(const std::string& path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail_errno(fmt::format("cannot open {}", path));
  }
  return UniqueFd(fd);
}

Result<std::string> read_fd(int fd, size_t limit) {
  std::string out;
  char buf[16384];
  for (;;) {
    ssize_t n = ::read(fd, buf, sizeof buf);
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail_errno("read failed");
    }
    if (n == 0) {
      return out;
    }
    if (out.size() + static_cast<size_t>(n) > limit) {
      return fail(fmt::format("more than {} bytes", limit));
    }
    out.append(buf, static_cast<size_t>(n));
  }
}

Result<std::string> read_file(const std::string& path, size_t limit) {
  XPURUN_TRY_ASSIGN(UniqueFd fd, open_read(path));
  auto data = read_fd(fd.get(), limit);
  if (!data) {
    return fail(std::move(data.error()).context(path));
  }
  return data;
}

namespace {

Result<UniqueFd> open_regular(const std::string& path) {
  // O_NONBLOCK: open() of a FIFO would wait for a writer, and of some devices for the hardware.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat st {};
  if (!fd || ::fstat(fd.get(), &st) != 0) {
    return fail_errno(fmt::format("cannot open {}", path));
  }
  if (!S_ISREG(st.st_mode)) {
    return fail(fmt::format("cannot read {}: not a regular file", path));
  }
  return fd;
}

}  // namespace

Result<std::string> read_regular_file(const std::string& path, size_t limit) {
  XPURUN_TRY_ASSIGN(const UniqueFd fd, open_regular(path));
  auto data = read_fd(fd.get(), limit);
  if (!data) {
    return fail(std::move(data.error()).context(path));
  }
  return data;
}

Result<std::string> read_file_start(const std::string& path, size_t bytes) {
  XPURUN_TRY_ASSIGN(const UniqueFd fd, open_regular(path));
  std::string out(bytes, '\0');
  size_t size = 0;
  while (size < bytes) {
    const ssize_t n = ::read(fd.get(), out.data() + size, bytes - size);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return fail_errno(fmt::format("cannot read {}", path));
    }
    if (n == 0) {
      break;
    }
    size += static_cast<size_t>(n);
  }
  out.resize(size);
  return out;
}

Status write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return fail_errno("write failed");
    }
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status write_file_atomic(const std::string& path, std::string_view data) {
  static std::atomic<unsigned> counter{0};
  const std::string tmp = fmt::format("{}.tmp{}-{}", path, ::getpid(), counter++);
  UniqueFd fd(::open(tmp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    return fail_errno(fmt::format("cannot create {}", tmp));
  }
  auto written = write_all(fd.get(), data);
  if (!written) {
    ::unlink(tmp.c_str());
    return fail(std::move(written.error()).context(path));
  }
  // NFS and file systems with quotas report some failed writes only at close().
  if (::close(fd.release()) != 0 || ::rename(tmp.c_str(), path.c_str()) != 0) {
    const int err = errno;
    ::unlink(tmp.c_str());
    return fail_errno(fmt::format("cannot write {}", path), err);
  }
  return {};
}

Status make_dirs(const std::string& path) {
  for (size_t pos = 0; pos != std::string::npos;) {
    pos = path.find('/', pos + 1);
    const std::string part = path.substr(0, pos);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return fail_errno(fmt::format("cannot create directory {}", part));
    }
  }
  // EEXIST also comes for a path that is not a directory.
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return fail_errno(fmt::format("cannot create directory {}", path), ENOTDIR);
  }
  return {};
}

Status make_own_dir(const std::string& path) {
  XPURUN_TRY(make_dirs(path));
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return fail({.what = fmt::format("cannot write into {}", path),
                 .cause = "it is a symbolic link, which leads out of this directory",
                 .hint = "rm the link"});
  }
  return {};
}

bool file_exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Result<std::string> read_link(const std::string& path) {
  char buf[PATH_MAX];
  ssize_t n = ::readlink(path.c_str(), buf, sizeof buf);
  if (n < 0) {
    return fail_errno(fmt::format("cannot read link {}", path));
  }
  return std::string(buf, static_cast<size_t>(n));
}

}  // namespace xpurun::base
