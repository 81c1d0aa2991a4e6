// Python's reports from before processes of the run ended.
#pragma once

#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Traceback {
  std::string title;  // "Rank 2, thread MainThread, at 14:03:12.80 UTC (16.80 s in)"
  std::string word;   // the kind: "exception"
  std::string text;   // as Python prints it
};

struct Tracebacks {
  std::vector<Traceback> shown;
  size_t left_out = 0;  // they are in run.json
};

// The reports of the culprits, or of every process if there is no culprit.
Tracebacks tracebacks_of(const model::RunManifest& run, const model::Verdict& verdict);

}  // namespace xpurun::report
