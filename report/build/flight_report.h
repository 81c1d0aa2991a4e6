// The report of a bare directory of Flight Recorder dumps, or of the output of NCCL's RAS, without a run
// directory: only the calls of the process groups are known.
#pragma once

#include "common/base/result.h"
#include "report/build/build_options.h"

#include <string>

namespace xpurun::report {

// Whether `dir` holds Flight Recorder dumps and no run.
bool is_flight_directory(const std::string& dir);

// Whether `path` is a file with the output of `ncclras`.
bool is_ras_file(const std::string& path);

// Reads the dumps in `dir`, or the file that `dir` is, and writes collectives.json, verdict.json, report.json
// and report.html into `out_dir`. Fails if nothing can be read or written.
base::Result<BuildResult> build_flight_report(const std::string& dir, const std::string& out_dir,
                                              const BuildOptions& options);

}  // namespace xpurun::report
