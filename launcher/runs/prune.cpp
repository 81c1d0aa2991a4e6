#include "launcher/runs/prune.h"

#include "common/base/os/fd.h"
#include "common/base/os/io.h"
#include "common/base/scope.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/runs/run_lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// No run directory is nested deeper, but a foreign directory may be.
constexpr int kDeepest = 32;

base::Status remove_entry(int dir, const std::string& name, dev_t device, int depth);

// Removes everything in the directory except the entry `spare`.
base::Status remove_content(base::UniqueFd dir, std::string_view spare, dev_t device, int depth) {
  DIR* stream = ::fdopendir(dir.get());
  if (stream == nullptr) {
    return base::fail_errno("cannot read a directory");
  }
  dir.release();
  const auto close = base::on_scope_exit([&] { ::closedir(stream); });
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != spare) {
      names.emplace_back(name);
    }
  }
  for (const std::string& name : names) {
    XPURUN_TRY(remove_entry(::dirfd(stream), name, device, depth));
  }
  return {};
}

// Works relative to open directories, so that no part of the path can be replaced by a link meanwhile.
base::Status remove_entry(int dir, const std::string& name, dev_t device, int depth) {
  struct stat st {};
  if (::fstatat(dir, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? base::Status() : base::fail_errno(fmt::format("cannot stat {}", name));
  }
  if (!S_ISDIR(st.st_mode)) {
    return ::unlinkat(dir, name.c_str(), 0) == 0 || errno == ENOENT
               ? base::Status()
               : base::fail_errno(fmt::format("cannot remove {}", name));
  }
  if (st.st_dev != device || depth >= kDeepest) {
    return base::fail(fmt::format("{} is another file system, or nested too deeply", name));
  }
  base::UniqueFd inner(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inner) {
    return base::fail_errno(fmt::format("cannot open {}", name));
  }
  XPURUN_TRY(remove_content(std::move(inner), "", device, depth + 1));
  return ::unlinkat(dir, name.c_str(), AT_REMOVEDIR) == 0
             ? base::Status()
             : base::fail_errno(fmt::format("cannot remove {}", name));
}

}  // namespace

std::vector<PruneChoice> select_runs(const std::vector<RunEntry>& runs, const PruneRules& rules,
                                     int64_t now_wall_ns) {
  std::vector<PruneChoice> out;
  uint64_t kept_bytes = 0;
  size_t n = 0;
  for (const RunEntry& run : runs) {
    ++n;
    const double age_s = static_cast<double>(now_wall_ns - run.ended_wall_ns) * 1e-9;
    std::string why;
    if (rules.keep && n > *rules.keep) {
      why = base::tr("not among the {} newest", *rules.keep);
    } else if (rules.older_than_s && age_s > *rules.older_than_s) {
      why = base::tr("ended {} ago", base::human_duration(age_s));
    } else if (rules.max_bytes && kept_bytes + run.bytes > *rules.max_bytes) {
      why = base::tr("newer runs leave no room for it in {}", base::human_size(*rules.max_bytes));
    }
    if (!why.empty() && may_be_removed(run.life)) {
      out.push_back({&run, std::move(why)});
    } else {
      kept_bytes += run.bytes;
    }
  }
  return out;
}

base::Status remove_run(const std::string& runs_dir, const RunEntry& run) {
  const base::UniqueFd parent(::open(runs_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent) {
    return base::fail_errno(fmt::format("cannot open {}", runs_dir));
  }
  base::UniqueFd dir(
      ::openat(parent.get(), run.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  if (!dir || ::fstat(dir.get(), &st) != 0) {
    return base::fail_errno(fmt::format("cannot open {}", run.path));
  }
  // Time has passed while the user was asked, so check again.
  const auto now = read_run(run.path);
  if (!now || now->manifest.id != run.name || now->manifest.started_wall_ns != run.manifest.started_wall_ns) {
    return base::fail(fmt::format("{} has been replaced", run.path));
  }
  const auto lock = RunLock::take(run.path);
  const bool others_lock = !lock && lock.error().sys_errno == EWOULDBLOCK;
  if (!may_be_removed(now->life) || others_lock) {
    return base::fail(fmt::format("{} is running", run.path));
  }
  // run.json last: what an interrupted removal leaves is still recognised as a run.
  XPURUN_TRY(
      remove_content(base::UniqueFd(::fcntl(dir.get(), F_DUPFD_CLOEXEC, 0)), "run.json", st.st_dev, 0));
  if (::unlinkat(dir.get(), "run.json", 0) != 0 ||
      ::unlinkat(parent.get(), run.name.c_str(), AT_REMOVEDIR) != 0) {
    return base::fail_errno(fmt::format("cannot remove {}", run.path));
  }
  return {};
}

void mend_latest(const std::string& runs_dir, const std::vector<RunEntry>& left) {
  const std::string link = runs_dir + "/latest";
  struct stat st {};
  const bool is_link = ::lstat(link.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
  if (!is_link || base::file_exists(link)) {
    return;
  }
  ::unlink(link.c_str());
  if (!left.empty()) {
    (void)!::symlink(left.front().name.c_str(), link.c_str());
  }
}

}  // namespace xpurun::launcher
