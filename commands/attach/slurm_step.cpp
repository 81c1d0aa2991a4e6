#include "commands/attach/slurm_step.h"

#include "commands/child.h"
#include "common/base/error_ids.h"
#include "common/base/os/program.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kScontrolLimitS = 10;
constexpr std::string_view kExtern = "extern";

// Numbers that stand for steps without one (slurm.h).
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kNamedSteps = {
    {{"4294967291", "batch"}, {"4294967292", kExtern}, {"4294967290", "interactive"}}};

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 10 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string step_name(std::string_view text) {
  for (const auto& [number, name] : kNamedSteps) {
    if (text == number) {
      return std::string(name);
    }
  }
  return std::string(text);
}

bool is_step(std::string_view text) {
  return is_number(text) || std::any_of(kNamedSteps.begin(), kNamedSteps.end(),
                                        [&](const auto& named) { return named.second == text; });
}

// "job_4242" with "job_" -> "4242"
std::string_view after(std::string_view part, std::string_view prefix) {
  return part.starts_with(prefix) ? part.substr(prefix.size()) : std::string_view();
}

std::vector<base::Pid> members(const base::ProcFs& proc, const SlurmStep& wanted) {
  std::vector<base::Pid> out;
  for (const base::Pid pid : proc.processes()) {
    auto step = step_of_cgroup(proc.text(pid, "cgroup"));
    if (!step) {
      step = step_of_environment(proc.environ(pid));
    }
    if (step && is_part_of(*step, wanted)) {
      out.push_back(pid);
    }
  }
  return out;
}

// Processes whose environment only their own user and root may read.
bool has_foreign_processes(const base::ProcFs& proc) {
  const uint32_t own = ::geteuid();
  const auto all = proc.processes();
  return own != 0 && std::any_of(all.begin(), all.end(), [&](base::Pid pid) {
           const auto status = proc.status(pid);
           return status && status->uid != own && status->uid != 0;
         });
}

// The last line of what scontrol said that is no line of the table.
std::string complaint_of(std::string_view output) {
  const auto lines = base::split(output, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const std::string_view text = base::trim(*line);
    const bool of_table =
        text.starts_with("PID ") || text.find_first_not_of("0123456789- ") == std::string::npos;
    if (!text.empty() && !of_table) {
      return base::sanitize(text);
    }
  }
  return {};
}

struct Answer {
  std::vector<base::Pid> processes;
  std::string problem;  // empty: there was an answer with processes
};

Answer ask_scontrol(const SlurmStep& wanted) {
  if (!base::find_program("scontrol")) {
    return {.processes = {}, .problem = base::cli_text("scontrol is not on PATH")};
  }
  // Of the whole job, because scontrol takes no names of steps, such as batch. It prints the heading of its
  // table in any case, and errors on standard error.
  const auto said =
      run_program({"/bin/sh", "-c", "exec scontrol listpids \"$1\" 2>&1", "sh", wanted.job}, kScontrolLimitS);
  if (said.status == -1) {
    return {.processes = {},
            .problem = base::cli_text("scontrol did not answer within {:.0f} s", kScontrolLimitS)};
  }
  Answer out{.processes = listed_processes(said.output, wanted), .problem = {}};
  if (out.processes.empty()) {
    const std::string why = complaint_of(said.output);
    out.problem =
        why.empty() ? base::cli_text("scontrol lists no process") : fmt::format("scontrol: {}", why);
  }
  return out;
}

}  // namespace

base::Result<SlurmStep> parse_slurm_step(std::string_view word) {
  const size_t dot = word.find('.');
  const SlurmStep out{.job = std::string(word.substr(0, dot)),
                      .step = dot == std::string_view::npos ? "" : step_name(word.substr(dot + 1))};
  if (!is_number(out.job) || (dot != std::string_view::npos && !is_step(out.step))) {
    return base::fail(
        base::Error{.what = base::cli_text("--slurm-step: '{}' is not JOB or JOB.STEP", base::sanitize(word)),
                    .id = base::kUsage,
                    .hint = base::cli_text("squeue --steps lists them: 4242.0, 4242.batch")});
  }
  return out;
}

std::string to_text(const SlurmStep& step) {
  return step.step.empty() ? step.job : fmt::format("{}.{}", step.job, step.step);
}

std::optional<SlurmStep> step_of_cgroup(std::string_view text) {
  // "0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_1", "4:freezer:/slurm/uid_0/job_4242/step_0"
  for (const std::string_view line : base::split(text, '\n')) {
    const auto parts = base::split(line, '/');
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::string_view job = after(parts[i - 1], "job_");
      const std::string_view step = after(parts[i], "step_");
      if (is_number(job) && is_step(step)) {
        return SlurmStep{.job = std::string(job), .step = step_name(step)};
      }
    }
  }
  return std::nullopt;
}

std::optional<SlurmStep> step_of_environment(const std::map<std::string, std::string>& env) {
  const auto value = [&](const char* name) {
    const auto it = env.find(name);
    return it == env.end() ? std::string_view() : std::string_view(it->second);
  };
  const std::string_view job = value("SLURM_JOB_ID");
  const std::string_view step = value("SLURM_STEP_ID");
  if (!is_number(job)) {
    return std::nullopt;
  }
  if (is_step(step)) {
    return SlurmStep{.job = std::string(job), .step = step_name(step)};
  }
  // A batch script has a job and a task but no step; the shell of salloc, on any host, has only a job.
  return is_number(value("SLURM_PROCID")) ? std::optional(SlurmStep{.job = std::string(job), .step = "batch"})
                                          : std::nullopt;
}

bool is_part_of(const SlurmStep& step, const SlurmStep& wanted) {
  return step.job == wanted.job && (wanted.step.empty() ? step.step != kExtern : step.step == wanted.step);
}

std::vector<base::Pid> listed_processes(std::string_view table, const SlurmStep& wanted) {
  std::vector<base::Pid> out;
  for (const std::string_view line : base::split(table, '\n')) {
    std::vector<std::string_view> fields;
    for (const std::string_view field : base::split(line, ' ')) {
      if (!base::trim(field).empty()) {
        fields.push_back(base::trim(field));
      }
    }
    // PID JOBID STEPID LOCALID GLOBALID
    if (fields.size() < 3 || !is_number(fields[0]) || !is_number(fields[1])) {
      continue;
    }
    const auto pid = base::parse_int(fields[0]).value_or(0);
    const std::string_view step = fields[2].substr(fields[2].rfind('.') + 1);
    const SlurmStep listed{.job = std::string(fields[1]), .step = step_name(step)};
    if (pid > 0 && pid <= INT32_MAX && is_part_of(listed, wanted)) {
      out.push_back(static_cast<base::Pid>(pid));
    }
  }
  return out;
}

std::vector<base::Pid> outermost(const base::ProcFs& proc, const std::vector<base::Pid>& processes,
                                 base::Pid self) {
  std::set<base::Pid> own;
  for (base::Pid pid = self; pid > 0 && own.insert(pid).second;) {
    const auto stat = proc.stat(pid);
    pid = stat ? stat->ppid : 0;
  }
  struct Known {
    uint64_t start;
    base::Pid pid;
    base::Pid parent;
  };
  std::vector<Known> known;
  std::set<base::Pid> pids;
  for (const base::Pid pid : processes) {
    const auto stat = proc.stat(pid);
    const bool counts = stat && stat->state != 'Z' && stat->state != 'X' && stat->comm != "slurmstepd";
    if (counts && !own.contains(pid) && pids.insert(pid).second) {
      known.push_back({stat->start_ticks, pid, stat->ppid});
    }
  }
  std::erase_if(known, [&](const Known& k) { return pids.contains(k.parent); });
  std::sort(known.begin(), known.end(), [](const Known& a, const Known& b) {
    return std::tie(a.start, a.pid) < std::tie(b.start, b.pid);
  });
  std::vector<base::Pid> out;
  for (const Known& k : known) {
    out.push_back(k.pid);
  }
  return out;
}

base::Result<std::vector<base::Pid>> processes_of_step(const SlurmStep& wanted, const base::ProcFs& proc) {
  const base::Pid self = ::getpid();
  std::vector<base::Pid> found = outermost(proc, members(proc, wanted), self);
  if (!found.empty()) {
    return found;
  }
  const Answer answer = ask_scontrol(wanted);
  found = outermost(proc, answer.processes, self);
  if (!found.empty()) {
    return found;
  }
  const bool hidden = has_foreign_processes(proc);
  const std::string own =
      answer.processes.empty() ? answer.problem : base::cli_text("only xpurun and its parents run in it");
  return base::fail(base::Error{
      .what = wanted.step.empty()
                  ? base::cli_text("no process of Slurm job {} is on this node", to_text(wanted))
                  : base::cli_text("no process of Slurm step {} is on this node", to_text(wanted)),
      .id = "E-NO-PROCESS",
      .cause = hidden ? base::cli_text(
                            "no control group or environment in /proc names it, as far as this user may "
                            "read them; {}",
                            own)
                      : base::cli_text("no control group or environment in /proc names it; {}", own),
      .hint = hidden ? base::cli_text("run xpurun attach as the user of the job, or as root")
                     : "squeue --steps"});
}

}  // namespace xpurun::launcher
