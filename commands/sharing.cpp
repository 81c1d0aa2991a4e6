#include "commands/sharing.h"

#include "common/base/strings.h"
#include "common/base/tr.h"

#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr mode_t kAllBits = 07777;

// A file that a process of another group has written, or one in a directory without the setgid bit, has the
// group of the writer.
base::Status add_permission(const std::string& path, mode_t bits, std::optional<gid_t> group) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return base::fail_errno(path);
  }
  if (group && st.st_gid != *group && ::chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return base::fail_errno(base::cli_text("cannot make {} readable for the group", path));
  }
  const mode_t wanted = (st.st_mode | bits) & kAllBits;
  if (wanted != (st.st_mode & kAllBits) && ::chmod(path.c_str(), wanted) != 0) {
    return base::fail_errno(base::cli_text("cannot make {} readable for the group", path));
  }
  return {};
}

}  // namespace

base::Status share_with_group(const model::RunDir& dir, const std::vector<std::string>& files) {
  struct stat run {};
  if (::stat(dir.path().c_str(), &run) != 0) {
    return base::fail_errno(dir.path());
  }
  XPURUN_TRY(add_permission(dir.path(), S_IRGRP | S_IXGRP, std::nullopt));
  if (std::filesystem::is_directory(dir.stacks_dir())) {
    XPURUN_TRY(add_permission(dir.stacks_dir(), S_IRGRP | S_IXGRP, run.st_gid));
  }
  for (const std::string& file : files) {
    XPURUN_TRY(add_permission(file, S_IRGRP, run.st_gid));
  }
  return {};
}

std::string unreachable_for_group(const std::string& path) {
  std::error_code ec;
  std::filesystem::path above = std::filesystem::absolute(path, ec).lexically_normal();
  for (; above.has_relative_path(); above = above.parent_path()) {
    struct stat st {};
    if (::stat(above.c_str(), &st) == 0 && (st.st_mode & (S_IXGRP | S_IXOTH)) == 0) {
      const std::string closed = above.string();
      return base::cli_text("--share group: the group cannot enter {}; try: chmod g+x {}",
                            base::sanitize(closed), base::shell_quote(closed));
    }
  }
  return "";
}

}  // namespace xpurun::launcher
