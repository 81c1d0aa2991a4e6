// Builds the report of a run directory, or the merged stacks of any directory of dumps. Both depend on the
// content of the directory only. Missing or broken files are named in `notes`; everything else is shown.
// Files are written atomically.
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"
#include "common/model/verdict.h"

#include <functional>
#include <string>
#include <vector>

namespace xpurun::report {

struct BuildOptions {
  bool write_html = true;
  bool write_stacks = true;
  bool source_lines = false;  // put the source lines of the groups' frames into the report
  // Told the verdict before anything is written: a full disk does not keep it back.
  std::function<void(const model::Verdict&)> on_verdict = {};
  size_t max_boxes = 2000;  // per picture; the rest is folded into "(other, n frames)"
};

struct BuildResult {
  model::Verdict verdict;          // build_stacks: empty
  std::vector<std::string> notes;  // files that could not be read, with the reason
  std::vector<std::string> files;  // written, absolute or as the directory was given
};

// Reads run.json and dumps/, diagnoses the run, and writes verdict.json, report.json, stacks/ and
// report.html. Fails only without run.json or if nothing can be written.
base::Result<BuildResult> build_report(const model::RunDir& dir, const BuildOptions& options);

// Merges every *.stacks.json below `dir` into out_dir: {merged,python,native}.{svg,folded} and stacks.txt. Of
// several dumps of the same processes only the latest is used. Dumps of several hosts are merged.
base::Result<BuildResult> build_stacks(const std::string& dir, const std::string& out_dir,
                                       const BuildOptions& options);

}  // namespace xpurun::report
