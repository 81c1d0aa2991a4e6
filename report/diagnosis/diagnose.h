// diagnose(): makes one verdict from the contents of a run directory. Pure: no clock, no file, no
// environment, so a verdict can be recomputed later and on another host. Rules form an array, and the first
// match decides (rule.h). The words of a verdict are a closed vocabulary (vocabulary.h, docs/verdicts.md).
#pragma once

#include "common/base/language.h"
#include "common/model/verdict.h"
#include "report/diagnosis/facts.h"

#include <string>
#include <vector>

namespace xpurun::report {

model::Verdict diagnose(const Facts& facts);
// The same verdict in another language: the rules are applied again to the same facts. `english` itself, if
// that is the language.
model::Verdict diagnose_in(base::Language language, const Facts& facts, const model::Verdict& english);

// The ranks of the stall were looked at, and did not hang.
bool was_no_hang(const model::Stall& stall);
// The dump that the run's verdict rests on, relative to the run directory; empty if none.
std::string dump_that_matters(const model::RunManifest& run);

// The text that the terminal shows below the sentence: at most ten lines of evidence, then "next: " and the
// advice. Not wrapped, safe for terminals; a line that is too long has lost whole clauses.
std::vector<std::string> evidence_lines(const model::Verdict& verdict, bool details = false);

// The sentence of a verdict whose facts are not at hand, in the language of this thread (common/base/tr.h):
// in English as it is, else made anew from the verdict's fields, with less detail.
std::string sentence_of(const model::Verdict& verdict);
// The same for a finished run of which only run.json is read; for an end without a fault, the whole sentence.
std::string sentence_of(const model::RunManifest& run);

}  // namespace xpurun::report
