// The processes of a Slurm step on this node, for `xpurun attach --slurm-step JOB[.STEP]`.
//
// /proc decides first. The cgroup that slurmstepd has put a process in is the kernel's own knowledge: nothing
// the job does to its environment, session or parents changes the membership, every user may read it, and it
// is right in this PID namespace. Without Slurm's cgroups (proctrack/linuxproc, pgid, a container that hides
// them) the environment that slurmstepd gave the process decides: a process that has lost it is still watched
// as a descendant of one that has not. `scontrol listpids` is asked last, because it waits for slurmd, which
// may be what hangs, and tells the numbers of slurmd's PID namespace; but it knows what /proc does not show.
// Pure functions, then the search. Single-threaded.
#pragma once

#include "common/base/os/procfs.h"
#include "common/base/result.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct SlurmStep {
  std::string job;   // number
  std::string step;  // number, "batch", "extern" or "interactive"; of a request, empty: all but extern

  bool operator==(const SlurmStep&) const = default;
};

// "4242", "4242.0", "4242.batch". The error is one of usage.
base::Result<SlurmStep> parse_slurm_step(std::string_view word);
std::string to_text(const SlurmStep& step);

// The step that the content of /proc/PID/cgroup names; empty if none does.
std::optional<SlurmStep> step_of_cgroup(std::string_view text);
std::optional<SlurmStep> step_of_environment(const std::map<std::string, std::string>& env);
bool is_part_of(const SlurmStep& step, const SlurmStep& wanted);

// The processes of the table that `scontrol listpids` prints.
std::vector<base::Pid> listed_processes(std::string_view table, const SlurmStep& wanted);

// Those of the processes whose parent is none of them, the oldest first. Leaves out `self` with its
// ancestors, which a step may contain too, and slurmstepd.
std::vector<base::Pid> outermost(const base::ProcFs& proc, const std::vector<base::Pid>& processes,
                                 base::Pid self);

// What attach has to watch; at least one process. E-NO-PROCESS with the reason if there is none.
base::Result<std::vector<base::Pid>> processes_of_step(const SlurmStep& wanted,
                                                       const base::ProcFs& proc = base::ProcFs());

}  // namespace xpurun::launcher
