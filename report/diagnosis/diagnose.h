// diagnose(): from everything a run directory says to one verdict. Pure: no clock, no file, no environment,
// so that a verdict can be made again later and elsewhere. Rules stand in an array, the first that matches
// decides (rule.h); the words of a verdict are a closed vocabulary (vocabulary.h, docs/verdicts.md).
#pragma once

#include "common/model/verdict.h"
#include "report/diagnosis/facts.h"

#include <string>
#include <vector>

namespace xpurun::report {

model::Verdict diagnose(const Facts& facts);

// Which dump of the run its verdict rests on, relative to the run directory; empty if on none.
std::string dump_that_matters(const model::RunManifest& run);

// What the terminal shows below the sentence: at most ten lines of evidence, then "next: " and the advice.
// Not wrapped, safe for terminals; a line that is too long has lost whole clauses.
std::vector<std::string> evidence_lines(const model::Verdict& verdict);

}  // namespace xpurun::report
