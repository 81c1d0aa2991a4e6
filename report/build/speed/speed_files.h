// Reads the span files and event files of a run, of all its nodes, and analyses them. One rank is in memory
// at a time.
#pragma once

#include "common/base/language.h"
#include "common/model/timing/speed_report.h"
#include "report/compare/run_samples.h"
#include "report/nodes/job_runs.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct SpeedReading {
  model::RankSet ranks;                               // only these; empty: all
  base::Language language = base::Language::english;  // of SpeedFinding::spoken
  bool series = false;                                // also what a comparison needs
};

struct SpeedOfRun {
  model::SpeedReport report;
  RunSamples samples;              // with SpeedReading::series
  size_t ranks = 0;                // with span or event files
  std::vector<std::string> notes;  // unreadable files
};

SpeedOfRun read_speed(const JobRuns& job, const SpeedReading& reading = {});

}  // namespace xpurun::report
