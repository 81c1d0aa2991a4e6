// xpurun stacks: merges dumps, or first makes new ones of a live run, of any live process or of core files.
#include "commands/stacks/task.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/os/interrupt_cleanup.h"

#include <fmt/format.h>

#include <cstring>
#include <elf.h>
#include <sys/stat.h>

namespace xpurun::launcher {

namespace {

// Longer than any dump: a dump has its own deadlines.
constexpr double kDumpTimeoutS = 60;

enum class PathKind { nothing, file, directory };

PathKind kind_of(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) {
    return PathKind::nothing;
  }
  return S_ISDIR(st.st_mode) ? PathKind::directory : PathKind::file;
}

bool is_core_file(const std::string& path) {
  const auto start = base::read_file_start(path, sizeof(Elf64_Ehdr));
  Elf64_Ehdr header{};
  if (!start || start->size() != sizeof header || !start->starts_with(ELFMAG)) {
    return false;
  }
  std::memcpy(&header, start->data(), sizeof header);
  return header.e_type == ET_CORE;
}

int merge(const std::vector<std::string>& paths, const StacksTask& task) {
  const bool whole = report::needs_processes(task.chosen_format());
  auto set = report::read_stack_set(paths, whole ? report::Keep::everything : report::Keep::nothing);
  if (!set) {
    return complain(set.error(), kExitFailure);
  }
  const bool in_place = paths.size() == 1 && kind_of(paths.front()) == PathKind::directory;
  if (!in_place) {
    return show_stacks(std::move(*set), task, "");
  }
  const std::string pictures = paths.front() + "/stacks";
  if (task.out_dir.empty() && task.out_file.empty()) {
    if (const auto made = base::make_own_dir(pictures); !made) {
      return complain(made.error(), kExitFailure);
    }
  }
  return show_stacks(std::move(*set), task, pictures);
}

int resolve_and_merge(const StacksTask& task) {
  const auto made = ScratchDirectory::create("xpurun-stacks");
  if (!made) {
    return complain(made.error(), kExitFailure);
  }
  const ScratchDirectory& temporary = **made;
  if (auto resolved = resolve_snapshots(task, temporary.path()); !resolved) {
    return complain(resolved.error(), kExitFailure);
  }
  auto set = report::read_stack_set({temporary.path()}, report::Keep::everything);
  if (!set) {
    return complain(set.error(), kExitFailure);
  }
  set->about = task.paths.front();
  return show_stacks(std::move(*set), task, "");
}

// Dumps the run now if its supervisor is live, else uses the existing dumps.
int dump_and_merge(const StacksTask& task) {
  const auto dir = model::RunDir::find(task.run);
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const auto run = model::load_run_manifest(dir->run_json());
  if (!run) {
    return complain(run.error(), kExitFailure);
  }
  if (run->outcome != model::RunOutcome::running) {
    report(task, fmt::format("the run has ended ({}): these are the stacks it left", name_of(run->outcome)));
    return merge({dir->path()}, task);
  }
  const auto dumped = ControlClient(run->control).dump(kDumpTimeoutS);
  if (dumped) {
    return merge({dir->file(*dumped)}, task);
  }
  if (dir->dumps().empty()) {
    return complain(dumped.error(), kExitFailure);
  }
  report(task, fmt::format("no new dump, {}: these are the stacks there are", base::to_line(dumped.error())));
  return merge({dir->path()}, task);
}

}  // namespace

int stacks_command(const Invocation& call) {
  auto task = read_stacks_task(call.words);
  if (!task) {
    return complain_usage(call, task.error().what);
  }
  if (task->compat_xpu_timer && task->paths.size() != 1) {
    return complain_usage(call, base::cli_text("--compat takes one directory"));
  }
  if (!task->cores.empty()) {
    return show_cores(*task);
  }
  if (task->live()) {
    return dump_and_show(*task);
  }
  if (!task->run.empty()) {
    return dump_and_merge(*task);
  }
  for (std::string& path : task->paths) {
    if (path == "latest") {
      auto found = model::RunDir::find(path);
      if (!found) {
        return complain(found.error(), kExitFailure);
      }
      path = found->path();
    } else if (kind_of(path) == PathKind::nothing) {
      return complain({.what = base::cli_text("{} does not exist", base::sanitize(path)),
                       .id = "E-NO-STACKS",
                       .hint = base::parse_int(path) ? fmt::format("xpurun stacks --pid {}", path)
                                                     : std::string("xpurun runs list")},
                      kExitFailure);
    } else if (kind_of(path) == PathKind::file && is_core_file(path)) {
      return complain({.what = base::cli_text("{} is a core file", base::sanitize(path)),
                       .id = "E-NO-STACKS",
                       .hint = fmt::format("xpurun stacks --core {}", base::shell_quote(path))},
                      kExitFailure);
    }
  }
  if (task->resolve_again) {
    return resolve_and_merge(*task);
  }
  return task->compat_xpu_timer ? write_xpu_timer_compat(*task) : merge(task->paths, *task);
}

}  // namespace xpurun::launcher
