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

// What the terminal shows: the sentence, then at most ten lines of evidence and advice, wrapped and never cut
// in the middle. The caller adds where the report is.
std::vector<std::string> verdict_lines(const model::Verdict& verdict);

}  // namespace xpurun::report
