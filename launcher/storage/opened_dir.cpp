#include "launcher/storage/opened_dir.h"

#include "common/base/os/io.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace xpurun::launcher {

namespace {

// statfs(2) f_type of file systems whose server is another process or another host. Some values are in
// linux/magic.h; the others belong to out-of-tree file systems or are missing there.
constexpr std::array<unsigned long, 11> kServedFileSystems = {
    0x65735546,  // FUSE
    0x6969,      // NFS
    0xFF534D42,  // CIFS
    0xFE534D42,  // SMB2
    0x517B,      // SMB
    0x01021997,  // 9P
    0x5346414F,  // AFS
    0x00C36400,  // Ceph
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x7461636F,  // OCFS2
};

bool is_local(const std::string& path) {
  struct statfs st {};
  if (::statfs(path.c_str(), &st) != 0) {
    return false;
  }
  const auto type = static_cast<unsigned long>(st.f_type) & 0xFFFFFFFFUL;
  return std::find(kServedFileSystems.begin(), kServedFileSystems.end(), type) == kServedFileSystems.end();
}

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

}  // namespace

DirFacts facts_of(const std::string& path) {
  return {.path = path, .absolute = absolute(path), .local = is_local(path)};
}

base::Result<OpenedDir> open_run_dir(const std::string& out_dir, const std::string& runs_dir,
                                     const std::string& name, bool for_group) {
  const bool makes_runs_dir = out_dir.empty() && !base::file_exists(runs_dir);
  XPURUN_TRY_ASSIGN(const model::RunDir dir, out_dir.empty() ? model::RunDir::create(runs_dir, name)
                                                             : model::RunDir::create_at(out_dir));
  if (makes_runs_dir && for_group) {
    // Without this right, the group cannot reach the report. Where it fails, xpurun report says so.
    (void)::chmod(runs_dir.c_str(), 0750);
  }
  OpenedDir out{.facts = facts_of(dir.path()), .lock = std::nullopt};
  // Held until the owner ends; `xpurun runs prune` skips locked directories.
  if (auto lock = RunLock::take(dir.path())) {
    out.lock.emplace(std::move(*lock));
  }
  return out;
}

}  // namespace xpurun::launcher
