// xpurun now: the verdict on the newest job of this host, at once.
#include "commands/attach/now.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/wire/notice.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/processes/identity.h"
#include "report/build/build.h"
#include "report/diagnosis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kDumpLimitS = 30;
constexpr size_t kSeveral = 2;  // workers

struct Process {
  base::ProcStat stat;
  base::Pid supervisor = 0;
  std::optional<Identity> identity;
  bool python = false;
};

base::Pid supervisor_in(const base::ProcFs& proc, const std::map<std::string, std::string>& env) {
  const auto run = env.find(std::string(wire::kRunEnv));
  const auto parts = base::split(run == env.end() ? std::string_view() : run->second, ':');
  const base::Pid supervisor =
      parts.size() < 2 ? 0 : static_cast<base::Pid>(base::parse_int(parts[1]).value_or(0));
  const auto stat = proc.stat(supervisor);
  return supervisor > 0 && stat && stat->state != 'Z' && stat->comm.starts_with("xpurun") ? supervisor : 0;
}

std::map<base::Pid, Process> processes_of(const base::ProcFs& proc, uint32_t user, base::Pid except) {
  std::map<base::Pid, Process> out;
  for (const base::Pid pid : proc.processes()) {
    const auto stat = proc.stat(pid);
    const auto status = proc.status(pid);
    if (pid == except || !stat || !status || status->uid != user || stat->state == 'Z') {
      continue;
    }
    const auto env = proc.environ(pid);
    out[pid] = {.stat = *stat,
                .supervisor = supervisor_in(proc, env),
                .identity = identity_from(env),
                .python = base::base_name(proc.exe(pid)).starts_with("python")};
  }
  return out;
}

// The processes that a rank starts inherit its variables.
bool is_rank(const std::map<base::Pid, Process>& all, const Process& p) {
  const auto parent = all.find(p.stat.ppid);
  return p.identity && (parent == all.end() || !parent->second.identity ||
                        parent->second.identity->rank != p.identity->rank);
}

// Jobs in the order of preference, by what they are and then by their age.
struct Ranked {
  int order = 0;
  FoundJob job;
};

void take_newest(std::optional<Ranked>& best, Ranked one) {
  const auto key = [](const Ranked& r) { return std::tuple(r.order, r.job.start_ticks); };
  if (!best || key(*best) < key(one)) {
    best = std::move(one);
  }
}

// The run directory, whose lock the supervisor's writer process holds.
std::string directory_of(const base::ProcFs& proc, base::Pid supervisor) {
  std::vector<base::Pid> holders = proc.children(supervisor);
  holders.push_back(supervisor);
  for (const base::Pid holder : holders) {
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(proc.path(holder, "fd"), ec)) {
      std::string target = proc.link(holder, "fd/" + entry.path().filename().string());
      const auto run = std::filesystem::is_directory(target, ec)
                           ? model::load_run_manifest(model::RunDir(target).run_json())
                           : base::Result<model::RunManifest>(base::fail("none"));
      if (run && run->supervisor_pid == supervisor) {
        return target;
      }
    }
  }
  return {};
}

}  // namespace

base::Pid supervisor_of(const base::ProcFs& proc, base::Pid pid) {
  return supervisor_in(proc, proc.environ(pid));
}

base::Result<FoundJob> newest_job(const base::ProcFs& proc, uint32_t user, base::Pid except) {
  enum Order { python_process, python_tree, job };
  const auto all = processes_of(proc, user, except);
  std::map<base::Pid, FoundJob> by_parent;
  std::map<base::Pid, size_t> workers;
  std::optional<Ranked> best;
  for (const auto& [pid, p] : all) {
    if (p.supervisor > 0) {
      const auto started = proc.stat(p.supervisor);
      take_newest(best, {.order = job,
                         .job = {.supervisor = p.supervisor,
                                 .targets = {},
                                 .start_ticks = started ? started->start_ticks : p.stat.start_ticks}});
    } else if (is_rank(all, p)) {
      FoundJob& found = by_parent[p.stat.ppid];
      found.targets.push_back(pid);
      found.start_ticks = std::max(found.start_ticks, p.stat.start_ticks);
    } else if (const auto parent = all.find(p.stat.ppid);
               p.python && parent != all.end() && parent->second.python) {
      ++workers[p.stat.ppid];
    }
  }
  for (auto& [parent, found] : by_parent) {
    take_newest(best, {.order = job, .job = std::move(found)});
  }
  for (const auto& [pid, p] : all) {
    const auto parent = all.find(p.stat.ppid);
    const bool below_python = parent != all.end() && parent->second.python;
    if (p.python && !below_python && p.supervisor == 0) {
      take_newest(best, {.order = workers[pid] >= kSeveral ? python_tree : python_process,
                         .job = {.supervisor = 0, .targets = {pid}, .start_ticks = p.stat.start_ticks}});
    }
  }
  if (!best) {
    return base::fail(base::Error{.what = base::cli_text("no job of this user runs on this host"),
                                  .id = "E-NO-PROCESS",
                                  .hint = "xpurun attach --now PID"});
  }
  return std::move(best->job);
}

int judge_supervised(base::Pid supervisor) {
  const base::ProcFs proc;
  const std::string path = directory_of(proc, supervisor);
  if (path.empty()) {
    return complain({.what = base::cli_text("the run directory of xpurun (pid {}) was not found", supervisor),
                     .id = "E-CONTROL",
                     .hint = "xpurun top"},
                    kExitFailure);
  }
  const model::RunDir dir(path);
  const auto run = model::load_run_manifest(dir.run_json());
  const auto dump = run ? ControlClient(run->control).dump(kDumpLimitS)
                        : base::Result<std::string>(base::fail(run.error()));
  if (!dump) {
    return complain(dump.error(), kExitFailure);
  }
  const auto verdict = report::judge_now(dir, *dump, base::command_language());
  if (!verdict) {
    return complain(verdict.error(), kExitFailure);
  }
  std::string out = fmt::format("xpurun: {}\n", base::sanitize(verdict->sentence));
  out += fmt::format("xpurun:   {}\n",
                     base::cli_text("of the job of xpurun (pid {}) in {}", supervisor, base::sanitize(path)));
  for (const std::string& line : report::evidence_lines(*verdict)) {
    out += fmt::format("xpurun:   {}\n", line);
  }
  return print(out);
}

int now_command(const Invocation& call) {
  if (!call.words.operands.empty()) {
    return complain_usage(
        call, base::cli_text("now takes no arguments; of a given process: xpurun attach --now PID"));
  }
  const auto job = newest_job(base::ProcFs(), ::geteuid(), ::getpid());
  if (!job) {
    return complain(job.error(), kExitFailure);
  }
  return job->supervisor > 0 ? judge_supervised(job->supervisor) : judge_unwatched(call, job->targets);
}

}  // namespace xpurun::launcher
