// Who filled the memory before the kernel killed a process, where no line of a rank has: by the last look at
// the processes and the files that had it.
#pragma once

#include "common/model/evidence/machine.h"
#include "common/model/run_manifest.h"
#include "common/model/verdict.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The last look at the memory that a process of the rank shared, until this time in seconds since the run
// began; null: there was none.
const model::MemoryUsers* users_of_memory(const model::RunManifest& run, const model::MachineHistory& machine,
                                          const model::ProcessRecord& process, double until_s);

struct MemoryFiller {
  int64_t bytes = 0;                // 0: nobody is known to have filled it
  base::Rank rank = base::kNoRank;  // whose it is; kNoRank: nobody's, or not known
  bool foreign = false;             // processes that are no part of a rank: no line of a rank is the cause
  bool files = false;               // shared memory or a file, which no sampled line has allocated
  std::string words;                // "; 4 processes that are no ranks held 1.4 of the 2.6 GiB of /job: ..."
  std::string title;                // "ran out of memory beside 4 processes that are no ranks, with 1.4 GiB"
  model::NextStep next;

  bool known() const { return bytes > 0; }
};
// `line`: what a line of the killed rank held.
MemoryFiller memory_filler(const model::MachineHistory& machine, const model::MemoryUsers& users,
                           const model::HeldMemory& line);
// The same for a launcher: what itself held, or the processes beside it.
MemoryFiller launcher_filler(const model::MemoryUsers& users, base::Pid launcher);

// "shortly before, control group /job held 2.5 GiB of its 2.6 GiB: rank 0 617 MiB, ..."; `moment`: of a
// process that was killed, or else of the time at which it was fullest.
enum class UsersMoment { before_end, fullest };
std::vector<std::string> users_words(const model::MemoryUsers& users, UsersMoment moment);

}  // namespace xpurun::report
