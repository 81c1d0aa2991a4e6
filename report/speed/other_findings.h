// Findings besides the ranks that are slow now: slow steps that are over or come regularly, what all ranks
// lose, and pauses. They are added to the report of the job.
#pragma once

#include "report/speed/judged_job.h"

#include <optional>

namespace xpurun::report {

// Slow steps that are over. Nobody is slow now: then a rank may have been.
void add_spells(const JudgedJob& j);

// Every n-th step is slow because of a rank. Without such a rank it may be the evaluation of an own loop,
// of which a rank alone is told as a note. `of_all`: who is slow in the mean of all steps. True if these
// ranks are slow in every n-th step only.
// `since`: these became slow then, with which the window begins; negative: not.
bool add_pattern(const JudgedJob& j, const std::optional<Blame>& of_all, int64_t since);

// Time that all ranks lose, or each rank in other steps.
void add_causes(const JudgedJob& j);
// A limit that throttles all ranks makes no rank stand out.
void add_lost_cpu(const JudgedJob& j);

// Pauses are not a slowdown. A rank that keeps the others waiting in them is reported as a note.
void add_pauses(const JudgedJob& j);

}  // namespace xpurun::report
