// diagnose(): makes one verdict from the contents of a run directory. Pure: no clock, no file, no
// environment, so a verdict can be recomputed later and on another host. Rules form an array, and the first
// match decides (rule.h). The words of a verdict are a closed vocabulary (vocabulary.h, docs/verdicts.md).
#pragma once

#include "common/model/verdict.h"
#include "report/diagnosis/facts.h"

#include <string>
#include <vector>

namespace xpurun::report {

model::Verdict diagnose(const Facts& facts);

// The dump that the run's verdict rests on, relative to the run directory; empty if none.
std::string dump_that_matters(const model::RunManifest& run);

// The lines for the terminal: the sentence, then at most ten wrapped lines of evidence and advice, never cut
// in the middle. The caller adds the path of the report.
std::vector<std::string> verdict_lines(const model::Verdict& verdict);

}  // namespace xpurun::report
