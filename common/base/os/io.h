// Whole-file and whole-buffer I/O. EINTR and short transfers are handled only here.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace xpurun::base {

// Opens for reading, close-on-exec. Errors name the path.
Result<UniqueFd> open_read(const std::string& path);

// Reads until end of file. Works on /proc files, whose size is unknown. More than `limit` bytes is an error.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 30);
// read_file() for files of unknown origin: anything but a regular file is an error. A FIFO could block until
// a writer comes, and a device could do anything.
Result<std::string> read_regular_file(const std::string& path, size_t limit = size_t{1} << 30);
// At most the first `bytes` bytes of a regular file.
Result<std::string> read_file_start(const std::string& path, size_t bytes);
Result<std::string> read_fd(int fd, size_t limit = size_t{1} << 30);

// Writes everything, also to pipes and sockets; blocks unless the descriptor is non-blocking.
Status write_all(int fd, std::string_view data);

// Writes `path` so that a reader sees either the old or the new content, never a part: temporary file in the
// same directory, mode 0600, then rename. No fsync: the file survives the death of xpurun, but not a power
// cut.
Status write_file_atomic(const std::string& path, std::string_view data);

// mkdir -p; new directories get mode 0700.
Status make_dirs(const std::string& path);

// Creates the directory `path` if it does not exist. A symbolic link as the last component is an error:
// output would land where the link points.
Status make_own_dir(const std::string& path);

// Follows symbolic links: false for a dangling link.
bool file_exists(const std::string& path);
// The target of a symbolic link, at most PATH_MAX bytes.
Result<std::string> read_link(const std::string& path);

}  // namespace xpurun::base
