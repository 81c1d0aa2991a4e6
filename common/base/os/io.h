// Whole-file and whole-buffer input and output. EINTR and short transfers are handled here and nowhere else.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace xpurun::base {

Result<UniqueFd> open_read(const std::string& path);

// Reads until end of file. Works on /proc files (no size needed). At most `limit` bytes; more is an error.
Result<std::string> read_file(const std::string& path, size_t limit = size_t{1} << 30);
// The same for a file that somebody else may have put there: anything but a regular file is an error. A FIFO
// would be waited for until a writer comes, a device could do anything.
Result<std::string> read_regular_file(const std::string& path, size_t limit = size_t{1} << 30);
Result<std::string> read_fd(int fd, size_t limit = size_t{1} << 30);

Status write_all(int fd, std::string_view data);

// Writes `path` so that a reader sees the old content or the new one, never a part: temporary file in the
// same directory, mode 0600, then rename. No fsync: survives our death, not a power cut.
Status write_file_atomic(const std::string& path, std::string_view data);

// mkdir -p with mode 0700 for what it creates.
Status make_dirs(const std::string& path);

// The directory `path`, made if nothing is there. A symbolic link at the end of the path is an error: output
// would land where the link leads.
Status make_own_dir(const std::string& path);

bool file_exists(const std::string& path);
Result<std::string> read_link(const std::string& path);

}  // namespace xpurun::base
