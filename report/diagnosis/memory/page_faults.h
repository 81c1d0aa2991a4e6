// Waits for pages that were not in memory, and control groups at their limit, which are often the reason.
#pragma once

#include "common/model/evidence/machine.h"
#include "report/diagnosis/rule.h"

#include <cstdint>
#include <string>

namespace xpurun::report {

// "waited for 1200 pages a second that were not in memory; control group /job was at its limit of 330 MiB",
// within this time. Empty: the rank did not.
std::string page_fault_words(const model::MachineHistory& history, base::Rank rank, int64_t begin_wall_ns,
                             int64_t end_wall_ns);
// A control group of the rank was at the limit of its memory within this time.
bool was_at_memory_limit(const model::MachineHistory& history, base::Rank rank, int64_t begin_wall_ns,
                         int64_t end_wall_ns);

// "; it waited for up to 60 pages a second that were not in memory; control group /job was at its memory
// limit of 330 MiB", before the dump. Empty: it did not.
std::string page_fault_clause(const Scene& scene, const RankView& v);
// What to do about it.
std::string page_fault_advice();

}  // namespace xpurun::report
