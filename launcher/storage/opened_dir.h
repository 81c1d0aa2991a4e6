// OpenedDir: a new run directory with its lock, and the facts for a process that must not touch the directory
// afterwards.
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"
#include "launcher/runs/run_lock.h"

#include <optional>
#include <string>

namespace xpurun::launcher {

struct DirFacts {
  std::string path;      // as the user will type it
  std::string absolute;  // without links
  bool local = true;     // not on a network or FUSE file system: it does not stall and can hold sockets
};

struct OpenedDir {
  DirFacts facts;
  std::optional<RunLock> lock;  // a file system without locks has none
};

DirFacts facts_of(const std::string& path);

// Makes `out_dir`, or, if that is empty, a new directory for `name` below `runs_dir`, which the group of the
// user may enter if it is made here `for_group`. Blocks as long as the file system does.
base::Result<OpenedDir> open_run_dir(const std::string& out_dir, const std::string& runs_dir,
                                     const std::string& name, bool for_group);

}  // namespace xpurun::launcher
