#include "launcher/runs/run_list.h"

#include "common/base/clock.h"
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/os/wait_status.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "launcher/os/signals.h"
#include "launcher/runs/run_lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace fs = std::filesystem;

namespace {

constexpr double kLongestRunS = 1e9;  // longer times in run.json are taken as errors

uint64_t blocks_of(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_blocks) * 512 : 0;
}

uint64_t size_on_disk(const std::string& path) {
  uint64_t out = blocks_of(path);
  std::error_code ec;
  auto it = fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied, ec);
  for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    out += blocks_of(it->path());
  }
  return out;
}

// The start of the main process is recorded at the first discovery; before that, the start of the run is
// used.
bool main_lives(const model::RunManifest& run, const base::ProcFs& proc) {
  constexpr double kSlackS = 60;  // seconds; wall clocks can be adjusted
  const auto stat = run.main_pid > 0 ? proc.stat(run.main_pid) : base::fail("none");
  if (!stat || stat->state == 'Z') {
    return false;
  }
  const double age_s = base::ns_to_s(base::wall_ns()) - base::ns_to_s(run.started_wall_ns);
  const double booted_s = base::ns_to_s(base::read_clock_ns(CLOCK_BOOTTIME));
  const double started_s = base::ticks_to_s(stat->start_ticks);
  return std::abs(booted_s - age_s - started_s) < kSlackS;
}

bool job_lives(const model::RunManifest& run) {
  const base::ProcFs proc;
  if (main_lives(run, proc)) {
    return true;
  }
  return std::any_of(run.processes.begin(), run.processes.end(), [&](const model::ProcessRecord& p) {
    const auto stat = proc.stat(p.pid);
    return stat && stat->start_ticks == p.start_ticks && stat->state != 'Z' && stat->state != 'X';
  });
}

// A pid may have been reused, so the program behind the pid decides.
bool supervisor_lives(const model::RunManifest& run) {
  const base::ProcFs proc;
  const auto stat = proc.stat(run.supervisor_pid);
  return stat && stat->state != 'Z' && stat->comm.starts_with("xpurun");
}

RunLife life_of(const std::string& path, const model::RunManifest& run) {
  const bool here = run.host == base::host_name();
  const bool unfinished = run.outcome == model::RunOutcome::running;
  if (RunLock::held(path)) {
    // The lock is the writer's, which outlives a killed supervisor until it has written what it was given.
    // Where the supervisor cannot be seen, as from another PID namespace, the job cannot be seen either.
    const bool orphaned = here && unfinished && !supervisor_lives(run) && job_lives(run);
    return orphaned ? RunLife::left : RunLife::running;
  }
  if (unfinished && !here) {
    return RunLife::unknown;
  }
  if (unfinished && supervisor_lives(run)) {
    return RunLife::running;
  }
  if (here && job_lives(run)) {
    return RunLife::left;
  }
  return unfinished ? RunLife::killed : RunLife::ended;
}

}  // namespace

base::Result<RunEntry> read_run(const std::string& path) {
  XPURUN_TRY_ASSIGN(model::RunManifest manifest, model::load_run_manifest(path + "/run.json"));
  RunEntry out{.name = std::string(base::base_name(path)), .path = path, .manifest = std::move(manifest)};
  out.life = life_of(path, out.manifest);
  out.bytes = size_on_disk(path);
  // Clamped, so that a hostile file cannot overflow the sum.
  const int64_t elapsed_ns = base::s_to_ns(std::clamp(out.manifest.elapsed_s, 0.0, kLongestRunS));
  out.ended_wall_ns =
      std::clamp<int64_t>(out.manifest.started_wall_ns, 0, INT64_MAX - elapsed_ns) + elapsed_ns;
  return out;
}

base::Result<std::vector<RunEntry>> list_runs(const std::string& runs_dir) {
  std::error_code ec;
  std::vector<RunEntry> out;
  auto it = fs::directory_iterator(runs_dir, ec);
  if (ec) {
    base::Error e = base::fail_errno(base::cli_text("cannot read {}", runs_dir), ec.value()).value();
    e.id = "E-NO-RUN";
    e.hint = "xpurun runs --runs-dir DIR";
    return base::fail(std::move(e));
  }
  for (; !ec && it != fs::directory_iterator(); it.increment(ec)) {
    struct stat dir {};
    struct stat file {};
    const std::string path = it->path();
    const bool candidate = ::lstat(path.c_str(), &dir) == 0 && S_ISDIR(dir.st_mode) &&
                           ::lstat((path + "/run.json").c_str(), &file) == 0 && S_ISREG(file.st_mode);
    if (!candidate) {
      continue;
    }
    auto run = read_run(path);
    if (run && run->manifest.id == run->name) {
      out.push_back(std::move(*run));
    }
  }
  std::sort(out.begin(), out.end(), [](const RunEntry& a, const RunEntry& b) {
    return std::pair(a.manifest.started_wall_ns, a.name) > std::pair(b.manifest.started_wall_ns, b.name);
  });
  return out;
}

bool may_be_removed(RunLife life) {
  return life == RunLife::ended || life == RunLife::killed;
}

std::string outcome_text(const RunEntry& run) {
  switch (run.life) {
    case RunLife::running:
      return "running";
    case RunLife::left:
      return "left alone";
    case RunLife::killed:
      return "killed";
    case RunLife::unknown:
      return "unknown";
    case RunLife::ended:
      break;
  }
  const model::RunManifest& m = run.manifest;
  if (m.outcome == model::RunOutcome::exit && (m.exit_status >= 0 || m.child_status.exited())) {
    return fmt::format("exit {}", m.exit_status >= 0 ? m.exit_status : m.child_status.exit_code());
  }
  if (m.outcome == model::RunOutcome::signal && m.child_status.signaled()) {
    return base::signal_name(m.child_status.signal());
  }
  return m.outcome == model::RunOutcome::spawn_failed ? "not started" : std::string(name_of(m.outcome));
}

}  // namespace xpurun::launcher
