// xpurun now: the verdict on the newest job of this host, at once.
#include "commands/attach/now.h"

#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/secrets/redact.h"
#include "common/wire/notice.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/output/text_block.h"
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

bool is_at_or_below(const std::map<base::Pid, Process>& all, base::Pid pid, base::Pid top) {
  auto p = all.find(pid);
  while (p != all.end() && p->first != top && p->second.stat.ppid != p->first) {
    p = all.find(p->second.stat.ppid);
  }
  return p != all.end() && p->first == top;
}

// One of these jobs is below this process.
bool launches(const std::map<base::Pid, Process>& all, const std::map<base::Pid, FoundJob>& jobs,
              base::Pid top) {
  return std::any_of(jobs.begin(), jobs.end(),
                     [&all, top](const auto& entry) { return is_at_or_below(all, entry.second.pid, top); });
}

// "xpurun attach --now" takes a launcher, or any process of a job that xpurun has started.
base::Pid named_by(const std::map<base::Pid, Process>& all, base::Pid parent, const FoundJob& found) {
  const bool several = found.targets.size() > 1 && parent > 1 && all.contains(parent);
  return several ? parent : found.targets.front();
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

// xpurun knows that ranks of its job stand still.
bool has_stall(const base::ProcFs& proc, const FoundJob& job) {
  const std::string path = job.supervisor > 0 ? directory_of(proc, job.supervisor) : std::string();
  const auto run = path.empty() ? base::Result<model::RunManifest>(base::fail("none"))
                                : model::load_run_manifest(model::RunDir(path).run_json());
  return run && std::any_of(run->stalls.begin(), run->stalls.end(),
                            [](const model::Stall& s) { return s.cleared_s < 0; });
}

}  // namespace

base::Pid supervisor_of(const base::ProcFs& proc, base::Pid pid) {
  return supervisor_in(proc, proc.environ(pid));
}

std::vector<FoundJob> jobs_of(const base::ProcFs& proc, uint32_t user, base::Pid except) {
  enum Order { python_process, python_tree, job };
  const auto all = processes_of(proc, user, except);
  std::map<base::Pid, FoundJob> supervised;
  std::map<base::Pid, FoundJob> by_parent;
  std::map<base::Pid, size_t> workers;
  std::vector<Ranked> found;
  for (const auto& [pid, p] : all) {
    if (p.supervisor > 0) {
      const auto started = proc.stat(p.supervisor);
      supervised.try_emplace(p.supervisor,
                             FoundJob{.supervisor = p.supervisor,
                                      .targets = {},
                                      .start_ticks = started ? started->start_ticks : p.stat.start_ticks,
                                      .pid = pid});
    } else if (is_rank(all, p)) {
      FoundJob& ranks = by_parent[p.stat.ppid];
      ranks.targets.push_back(pid);
      ranks.start_ticks = std::max(ranks.start_ticks, p.stat.start_ticks);
      ranks.pid = named_by(all, p.stat.ppid, ranks);
    } else if (const auto parent = all.find(p.stat.ppid);
               p.python && parent != all.end() && parent->second.python) {
      ++workers[p.stat.ppid];
    }
  }
  for (const auto& [pid, p] : all) {
    const auto parent = all.find(p.stat.ppid);
    const bool below_python = parent != all.end() && parent->second.python;
    if (p.python && !below_python && p.supervisor == 0 && !p.identity && !launches(all, by_parent, pid) &&
        !launches(all, supervised, pid)) {
      found.push_back(
          {.order = workers[pid] >= kSeveral ? python_tree : python_process,
           .job = {.supervisor = 0, .targets = {pid}, .start_ticks = p.stat.start_ticks, .pid = pid}});
    }
  }
  for (auto* jobs : {&supervised, &by_parent}) {
    for (auto& [key, one] : *jobs) {
      found.push_back({.order = job, .job = std::move(one)});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Ranked& a, const Ranked& b) {
    return std::tuple(a.order, a.job.start_ticks) > std::tuple(b.order, b.job.start_ticks);
  });
  std::vector<FoundJob> out;
  for (Ranked& one : found) {
    out.push_back(std::move(one.job));
  }
  return out;
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

std::string other_jobs_text(const base::ProcFs& proc, const std::vector<FoundJob>& jobs) {
  constexpr size_t kMost = 5;
  constexpr size_t kColumns = 60;
  std::string out;
  for (size_t i = 1; i < std::min(jobs.size(), 1 + kMost); ++i) {
    const auto command = model::redact_argv(proc.cmdline(jobs[i].pid));
    out += fmt::format(
        "xpurun:   {}\n",
        base::cli_text("not looked at: pid {} ({}); xpurun attach --now {}", jobs[i].pid,
                       cut_end(base::sanitize(fmt::format("{}", fmt::join(command, " "))), kColumns),
                       jobs[i].pid));
  }
  if (jobs.size() > 1 + kMost) {
    out += fmt::format("xpurun:   {}\n",
                       base::cli_text("not looked at: {} further jobs", jobs.size() - 1 - kMost));
  }
  return out;
}

int now_command(const Invocation& call) {
  if (!call.words.operands.empty()) {
    return complain_usage(
        call, base::cli_text("now takes no arguments; of a given process: xpurun attach --now PID"));
  }
  const base::ProcFs proc;
  std::vector<FoundJob> jobs = jobs_of(proc, ::geteuid(), ::getpid());
  if (jobs.empty()) {
    return complain({.what = base::cli_text("no job of this user runs on this host"),
                     .id = "E-NO-PROCESS",
                     .hint = "xpurun attach --now PID"},
                    kExitFailure);
  }
  // The question is about a job that stands still, if one does.
  if (jobs.size() > 1) {
    std::stable_partition(jobs.begin(), jobs.end(),
                          [&](const FoundJob& one) { return has_stall(proc, one); });
  }
  const std::string others = other_jobs_text(proc, jobs);
  const FoundJob& job = jobs.front();
  const int status =
      job.supervisor > 0 ? judge_supervised(job.supervisor) : judge_unwatched(call, job.targets);
  base::write_stderr(others);
  return status;
}

}  // namespace xpurun::launcher
