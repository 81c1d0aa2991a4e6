// Builds the report of a run directory, or the merged stacks of any directory of dumps. Both depend on the
// content of the directory only. Missing or broken files are named in `notes`; everything else is shown.
// Files are written atomically.
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"
#include "report/build/build_options.h"

#include <string>

namespace xpurun::report {

// Reads run.json and dumps/, diagnoses the run, and writes verdict.json, report.json, stacks/ and
// report.html. Fails only without run.json or if nothing can be written.
base::Result<BuildResult> build_report(const model::RunDir& dir, const BuildOptions& options);

// Merges every *.stacks.json below `dir` into out_dir: {merged,python,native}.{svg,folded} and stacks.txt. Of
// several dumps of the same processes only the latest is used. Dumps of several hosts are merged.
base::Result<BuildResult> build_stacks(const std::string& dir, const std::string& out_dir,
                                       const BuildOptions& options);

}  // namespace xpurun::report
