// The dump of a run to show when the user names none. Pure function of the run directory.
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct PickedDump {
  std::string shown;      // the dump whose stacks the report shows, "dumps/1-hang"; empty if there is no dump
  bool evidence = false;  // the verdict may rest on it
};

// The dump that the verdict rests on, else the last dump on disk. The last dump may have been requested by
// the user and say nothing about the end of the run, or a killed supervisor may not have recorded it.
PickedDump pick_dump(const model::RunDir& dir, const model::RunManifest& run);

// run.json; one that was cut off still leaves dumps to report on: then `notes` says so and the manifest is
// empty. E-NO-RUN if there is none, E-NO-DATA if the file cannot be read and there is no dump either.
struct LoadedRun {
  model::RunManifest run;
  std::vector<std::string> notes;
};
base::Result<LoadedRun> load_run(const model::RunDir& dir);

}  // namespace xpurun::report
