// xpurun stacks --pid: dumps live processes, once or several times, and shows them.
#include "commands/stacks/task.h"
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/model/stacks/stack_file.h"
#include "launcher/options/exit_status.h"
#include "launcher/os/interrupt_cleanup.h"
#include "launcher/stacks/live_dump.h"
#include "launcher/stacks/live_targets.h"
#include "report/formats/motion.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

std::vector<std::string> helper_options(const StacksTask& task) {
  std::vector<std::string> out;
  if (task.no_stop) {
    out.emplace_back("--no-stop");
  }
  if (task.locals) {
    out.emplace_back("--locals");
  }
  out.insert(out.end(), {"--unwinder", task.unwinder, "--gpu-stacks", std::string(name_of(task.gpu_stacks))});
  if (!task.symbols.empty()) {
    out.insert(out.end(), {"--symbols", task.symbols});
  }
  return out;
}

struct Taken {
  std::vector<std::vector<model::ProcessStacks>> samples;
  StackDumpOutcome last;
  std::string complaints;
};

base::Result<Taken> take_samples(const StacksTask& task, const std::vector<DumpTarget>& targets,
                                 const std::string& directory) {
  Taken out;
  base::MonoNs next = base::mono_ns();
  for (int i = 0; i < task.samples; ++i) {
    if (const base::MonoNs now = base::mono_ns(); now < next) {
      const timespec pause{.tv_sec = (next - now) / 1'000'000'000, .tv_nsec = (next - now) % 1'000'000'000};
      ::nanosleep(&pause, nullptr);
    }
    next = base::mono_ns() + base::s_to_ns(task.interval_s);
    const LiveDump dump{.directory = directory,
                        .pause_limit_s = task.deadline_s,
                        .debuggers = task.gpu_stacks != model::GpuStacks::never || task.unwinder == "gdb",
                        .keep_snapshots = task.keep_snapshots,
                        .helper_options = helper_options(task)};
    XPURUN_TRY_ASSIGN(LiveDumpResult result, dump_live(dump, targets));
    out.samples.push_back(load_dumped(directory, result.outcome));
    out.last = std::move(result.outcome);
    out.complaints = std::move(result.complaints);
  }
  return out;
}

// The files that --out DIR keeps: what the pictures beside them were made of.
base::Status keep_files(const std::string& directory, const StackDumpOutcome& outcome,
                        const std::vector<model::ProcessStacks>& processes) {
  for (const model::DumpedProcess& dumped : outcome.processes) {
    for (const model::ProcessStacks& p : processes) {
      if (p.pid == dumped.pid && !dumped.file.empty()) {
        XPURUN_TRY(
            base::write_file_atomic(fmt::format("{}/{}", directory, dumped.file), model::stacks_file(p)));
      }
    }
  }
  return {};
}

// Children end whenever they like: one that has ended meanwhile is no failure, unlike a process that was
// named.
bool is_missed(const model::DumpedProcess& p, const std::vector<base::Pid>& named) {
  const bool was_named = std::find(named.begin(), named.end(), p.pid) != named.end();
  return (p.status == model::DumpStatus::failed || p.status == model::DumpStatus::timeout) &&
         (was_named || !has_ended(base::ProcFs(), p.pid));
}

// Whether every process could be dumped.
bool tell_failures(const Taken& taken, const std::vector<base::Pid>& named) {
  bool all = true;
  for (const model::DumpedProcess& p : taken.last.processes) {
    if (is_missed(p, named)) {
      all = false;
      const std::string text = base::sanitize(model::reason_or_status(p.reason, p.status));
      base::write_stderr(fmt::format("xpurun: pid {}: {}\n", p.pid, text));
      if (p.no_result) {
        base::write_stderr(taken.complaints);
      }
    }
  }
  return all;
}

}  // namespace

int dump_and_show(const StacksTask& task) {
  const base::ProcFs proc;
  const auto pids = task.children ? with_descendants(proc, task.pids, ::getpid()) : task.pids;
  const std::vector<DumpTarget> targets = identify_targets(proc, pids);
  std::unique_ptr<ScratchDirectory> temporary;
  if (task.out_dir.empty()) {
    auto made = ScratchDirectory::create("xpurun-stacks");
    if (!made) {
      return complain(made.error(), kExitFailure);
    }
    temporary = std::move(*made);
  } else if (auto made = base::make_dirs(task.out_dir); !made) {
    return complain(made.error(), kExitFailure);
  }
  const std::string directory = temporary ? temporary->path() : task.out_dir;
  auto taken = take_samples(task, targets, directory);
  if (!taken) {
    return complain(taken.error(), kExitFailure);
  }
  auto processes = report::with_motion(std::move(taken->samples));
  if (task.samples > 1 && !task.out_dir.empty()) {
    if (auto kept = keep_files(directory, taken->last, processes); !kept) {
      return complain(kept.error(), kExitFailure);
    }
  }
  const bool complete = tell_failures(*taken, task.pids);
  const bool any = std::any_of(processes.begin(), processes.end(),
                               [](const model::ProcessStacks& p) { return !p.threads.empty(); });
  if (!complete && !any) {
    return kExitFailure;  // why is said, and there is nothing to show
  }
  auto set = report::make_stack_set(
      std::move(processes), fmt::format("{}, {}", base::host_name(), base::utc_iso8601(base::wall_ns())), {});
  const int status = show_stacks(std::move(set), task, "");
  return status != 0 || complete ? status : kExitFailure;
}

}  // namespace xpurun::launcher
