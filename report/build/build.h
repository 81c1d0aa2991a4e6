// Builds the report of a run directory, or the merged stacks of any directory of dumps. Both depend on the
// content of the directory only. Missing or broken files are named in `notes`; everything else is shown.
// Files are written atomically.
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"
#include "report/build/build_options.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Reads run.json and dumps/, with those of other nodes below nodes/ if there is a nodes.json, diagnoses the
// run, and writes verdict.json, report.json, stacks/ and report.html. Fails only without run.json or if
// nothing can be written.
base::Result<BuildResult> build_report(const model::RunDir& dir, const BuildOptions& options);

// The same from run directories of several nodes of one job, the first of which counts as this node; writes
// into `out`. Fails if they are not of one job (E-NODES).
base::Result<BuildResult> build_report(const std::vector<model::RunDir>& dirs, const model::RunDir& out,
                                       const BuildOptions& options);

// The verdict on a job that runs, by a dump that was asked for ("dumps/2-request"): a rank that has stood
// still for a second counts as still. Writes nothing.
base::Result<model::Verdict> judge_now(const model::RunDir& dir, const std::string& dump,
                                       base::Language language);

}  // namespace xpurun::report
