// xpurun stacks --sysroot, --symbols, --unwinder: resolves snapshots again.
#include "commands/stacks/task.h"
#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/stack_snapshot.h"
#include "launcher/spawn/install_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace xpurun::launcher {

namespace fs = std::filesystem;

namespace {

constexpr double kOneSnapshotS = 120;

std::vector<std::string> snapshots_below(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  const auto take = [&](const fs::path& path) {
    if (path.native().ends_with(model::kSnapshotSuffix)) {
      out.push_back(path);
    }
  };
  for (const std::string& path : paths) {
    std::error_code ec;
    if (!fs::is_directory(path, ec)) {
      take(path);
      continue;
    }
    for (fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, ec), end;
         !ec && it != end; it.increment(ec)) {
      take(it->path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

base::Status resolve_one(const std::string& program, const StacksTask& task, const std::string& snapshot,
                         const std::string& out, base::Progress& progress) {
  std::vector<std::string> argv = {program, "--from-snapshot", snapshot,     "--out",
                                   out,     "--unwinder",      task.unwinder};
  if (!task.sysroot.empty()) {
    argv.insert(argv.end(), {"--sysroot", task.sysroot});
  }
  if (!task.symbols.empty()) {
    argv.insert(argv.end(), {"--symbols", task.symbols});
  }
  XPURUN_TRY(run_resolver(argv, kOneSnapshotS, -1, progress));
  if (::access(out.c_str(), F_OK) != 0) {
    return base::fail({.what = base::cli_text("cannot resolve the stacks of {}", base::sanitize(snapshot)),
                       .id = "E-NO-STACKS"});
  }
  return {};
}

}  // namespace

base::Status resolve_snapshots(const StacksTask& task, const std::string& directory) {
  XPURUN_TRY_ASSIGN(const std::string program, stackdump_program());
  const auto snapshots = snapshots_below(task.paths);
  if (snapshots.empty()) {
    return base::fail(
        {.what = base::cli_text("there is no snapshot in {}", base::sanitize(task.paths.front())),
         .id = "E-NO-STACKS",
         .cause = base::cli_text("--symbols, --sysroot and --unwinder resolve *.snapshot files again"),
         .hint = "xpurun stacks without them"});
  }
  size_t made = 0;
  base::Status last;
  base::Progress progress("symbolising snapshots", snapshots.size());
  for (size_t i = 0; i < snapshots.size(); ++i) {
    // Several dumps may contain files with the same name.
    const std::string out = fmt::format("{}/{}", directory, i);
    XPURUN_TRY(base::make_dirs(out));
    const std::string name(base::base_name(snapshots[i]));
    const std::string stem = name.substr(0, name.size() - model::kSnapshotSuffix.size());
    auto done = resolve_one(program, task, snapshots[i],
                            fmt::format("{}/{}{}", out, stem, model::kStacksSuffix), progress);
    progress.advance();
    if (done) {
      ++made;
    } else {
      report(task, base::to_line(done.error()));
      last = std::move(done);
    }
  }
  return made == 0 ? last : base::Status();
}

}  // namespace xpurun::launcher
