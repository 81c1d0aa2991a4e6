// Where a process writes its standard error, and how far it has come. Read from /proc alone: no file of the
// job's is opened here, because its file system may be stalled.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/run_manifest.h"

namespace xpurun::launcher {

// What descriptor 2 is at this moment. A file is named by its path as the process sees it.
model::ErrorStream error_stream_of(const base::ProcFs& proc, base::Pid pid);

// The offset of descriptor 2: behind what was written last through it, by this process or by another that
// inherited the same open file. -1 if unknown.
int64_t error_position_of(const base::ProcFs& proc, base::Pid pid);

}  // namespace xpurun::launcher
