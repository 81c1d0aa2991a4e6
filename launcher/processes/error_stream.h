// The file behind a process's standard error, and the position in it. Read from /proc alone: no file of the
// job is opened here, because its file system may be hung.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/run_manifest.h"

namespace xpurun::launcher {

// The current file of descriptor 2, named by its path as the process sees it.
model::ErrorStream error_stream_of(const base::ProcFs& proc, base::Pid pid);

// The offset of descriptor 2: the end of the last write through it, by this process or another that inherited
// the same open file. -1 if unknown.
int64_t error_position_of(const base::ProcFs& proc, base::Pid pid);

}  // namespace xpurun::launcher
