// Where a job stands at this moment.
#pragma once

#include "commands/commands.h"
#include "common/base/ids.h"
#include "common/base/os/procfs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::launcher {

// A job on this host.
struct FoundJob {
  base::Pid supervisor = 0;        // of the xpurun that has started it; 0: it runs without xpurun
  std::vector<base::Pid> targets;  // without xpurun: what to watch
  uint64_t start_ticks = 0;
  base::Pid pid = 0;  // for `xpurun attach --now`
};

// The jobs of this user, the newest first: those that xpurun has started, or processes with a launcher's
// variables; then trees of Python processes with several workers; then Python processes.
std::vector<FoundJob> jobs_of(const base::ProcFs& proc, uint32_t user, base::Pid except);

// Names the jobs behind the first one, a few of them, in a line each.
std::string other_jobs_text(const base::ProcFs& proc, const std::vector<FoundJob>& jobs);

// The pid of the living xpurun that supervises the process; 0 if there is none.
base::Pid supervisor_of(const base::ProcFs& proc, base::Pid pid);

// Asks the supervisor for a dump, judges the dump and prints the verdict. The exit status.
int judge_supervised(base::Pid supervisor);

// What `xpurun attach --now` does with these processes, which run without xpurun.
int judge_unwatched(const Invocation& call, std::vector<base::Pid> targets);

}  // namespace xpurun::launcher
