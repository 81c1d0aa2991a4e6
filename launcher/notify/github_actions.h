// GitHub Actions shows annotations, which are lines of a step's output, and the Markdown that a step has
// appended to the file GITHUB_STEP_SUMMARY.
#pragma once

#include "common/model/verdict.h"

#include <string>

namespace xpurun::launcher {

// "::error file=train.py,line=31,title=hang::rank 2 ...": at the culprit's line, whose path is relative to
// `workspace`, if the file is below it. A notice if nothing is wrong. One line.
std::string github_annotation(const model::Verdict& verdict, const std::string& workspace);

// Nothing outside of a workflow. `report_json`: path of the report, empty without one; the summary is its
// Markdown.
void tell_github(const model::Verdict& verdict, const std::string& report_json);

}  // namespace xpurun::launcher
