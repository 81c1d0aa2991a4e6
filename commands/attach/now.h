// Where a job stands at this moment.
#pragma once

#include "commands/commands.h"
#include "common/base/ids.h"
#include "common/base/os/procfs.h"
#include "common/base/result.h"

#include <cstdint>
#include <vector>

namespace xpurun::launcher {

// A job on this host.
struct FoundJob {
  base::Pid supervisor = 0;        // of the xpurun that has started it; 0: it runs without xpurun
  std::vector<base::Pid> targets;  // without xpurun: what to watch
  uint64_t start_ticks = 0;
};

// The newest job of this user: one that xpurun has started, or processes with a launcher's variables; else
// the newest tree of Python processes with several workers; else the newest Python process. E-NO-PROCESS if
// there is none.
base::Result<FoundJob> newest_job(const base::ProcFs& proc, uint32_t user, base::Pid except);

// The pid of the living xpurun that supervises the process; 0 if there is none.
base::Pid supervisor_of(const base::ProcFs& proc, base::Pid pid);

// Asks the supervisor for a dump, judges the dump and prints the verdict. The exit status.
int judge_supervised(base::Pid supervisor);

// What `xpurun attach --now` does with these processes, which run without xpurun.
int judge_unwatched(const Invocation& call, std::vector<base::Pid> targets);

}  // namespace xpurun::launcher
