#include "report/run/picked_dump.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "report/diagnosis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

PickedDump pick_dump(const model::RunDir& dir, const model::RunManifest& run) {
  const std::string named = dump_that_matters(run);
  if (!named.empty() && base::file_exists(dir.file(named))) {
    return {.shown = named, .evidence = true};
  }
  const std::vector<std::string> on_disk = dir.dumps();
  if (on_disk.empty()) {
    return {};
  }
  std::string last = fmt::format("dumps/{}", base::base_name(on_disk.back()));
  const bool noted = std::any_of(run.dumps.begin(), run.dumps.end(),
                                 [&last](const model::DumpRecord& d) { return d.dir == last; });
  return {.shown = std::move(last), .evidence = run.outcome == model::RunOutcome::running && !noted};
}

base::Result<LoadedRun> load_run(const model::RunDir& dir) {
  if (!base::file_exists(dir.run_json())) {
    return base::fail(base::Error{.what = fmt::format("{} is not a run directory", dir.path()),
                                  .id = "E-NO-RUN",
                                  .cause = "it holds no file run.json",
                                  .hint = fmt::format("xpurun stacks {}", base::shell_quote(dir.path()))});
  }
  auto run = model::load_run_manifest(dir.run_json());
  if (run) {
    return LoadedRun{.run = std::move(*run)};
  }
  if (dir.dumps().empty()) {
    return base::fail(
        base::Error{.what = base::to_line(run.error()),
                    .id = "E-NO-DATA",
                    .cause = "without this file nothing is known of the run, and there is no dump",
                    .hint = "xpurun runs"});
  }
  LoadedRun empty{.notes = {base::to_line(run.error())}};
  empty.run.id = dir.id();
  return empty;
}

}  // namespace xpurun::report
