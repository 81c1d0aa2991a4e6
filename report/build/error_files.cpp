#include "report/build/error_files.h"

#include "common/base/clock.h"
#include "common/model/evidence/error_file.h"
#include "report/build/job_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

using model::ProcessRecord;

constexpr size_t kMostErrorBytes = size_t{1} << 20;
constexpr size_t kMostErrorFiles = 64;
// The file's time has whole seconds, too coarse to order failures by. It counts where the rank died this much
// later than it raised.
constexpr double kCoarseS = 2;

bool has_told(const model::RunManifest& run, const ProcessRecord& p) {
  return std::any_of(run.exceptions.begin(), run.exceptions.end(), [&](const model::PythonException& x) {
    return x.pid == p.pid && x.kind == model::ExceptionKind::raised;
  });
}

}  // namespace

void add_error_files(const model::RunDir& dir, model::RunManifest& run) {
  size_t read = 0;
  for (const ProcessRecord& p : run.processes) {
    const bool failed = p.role == model::ProcessRole::rank && p.death.happened && !p.death.follower &&
                        !p.death.wait_status.succeeded();
    if (!failed || p.error_file.empty() || has_told(run, p) || ++read > kMostErrorFiles) {
      continue;
    }
    const auto text = read_job_file(dir, run,
                                    {.path = p.error_file,
                                     .kept = fmt::format("ranks/{}/error-{}.json", p.rank, p.pid),
                                     .most = kMostErrorBytes});
    auto file = text ? model::parse_error_file(*text) : std::nullopt;
    if (!file) {
      continue;
    }
    model::PythonException& x = file->exception;
    x.pid = p.pid;
    x.rank = p.rank;
    x.at_s = p.death.at_s;
    const double raised_s =
        static_cast<double>(file->wall_seconds) - static_cast<double>(run.started_wall_ns) / 1e9;
    if (file->wall_seconds > 0 && raised_s + kCoarseS < p.death.at_s) {
      x.wall_ns = file->wall_seconds * 1'000'000'000;
    }
    run.exceptions.push_back(std::move(x));
  }
}

}  // namespace xpurun::report
