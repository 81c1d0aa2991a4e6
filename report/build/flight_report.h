// The report of a bare directory of Flight Recorder dumps, without a run directory: only the calls of the
// process groups are known.
#pragma once

#include "common/base/result.h"
#include "report/build/build_options.h"

#include <string>

namespace xpurun::report {

// Whether `dir` holds Flight Recorder dumps and no run.
bool is_flight_directory(const std::string& dir);

// Reads the dumps in `dir` and writes collectives.json, verdict.json, report.json and report.html into
// `out_dir`. Fails if no dump can be read or nothing can be written.
base::Result<BuildResult> build_flight_report(const std::string& dir, const std::string& out_dir,
                                              const BuildOptions& options);

}  // namespace xpurun::report
