// Which dump of a run is meant when nobody names one. Pure function of the run directory.
#pragma once

#include "common/base/result.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct PickedDump {
  std::string shown;      // whose stacks the report shows, "dumps/1-hang"; empty without any dump
  bool evidence = false;  // the verdict may rest on it
};

// The one that the verdict rests on; failing that the last one on disk, which may be a dump on request that
// says nothing about how the run ended, or one that a killed supervisor had no time to note.
PickedDump pick_dump(const model::RunDir& dir, const model::RunManifest& run);

// run.json; one that was cut off still leaves dumps to report on: then `notes` says so and the manifest is
// empty. E-NO-RUN if there is none.
struct LoadedRun {
  model::RunManifest run;
  std::vector<std::string> notes;
};
base::Result<LoadedRun> load_run(const model::RunDir& dir);

}  // namespace xpurun::report
