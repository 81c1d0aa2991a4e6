// xpurun stacks --core: the processes of core files.
#include "commands/stacks/task.h"
#include "common/base/os/fd.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json_fields.h"
#include "common/model/stacks/stack_file.h"
#include "launcher/options/exit_status.h"
#include "launcher/os/interrupt_cleanup.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/stacks/core_process.h"
#include "report/diagnosis/rank_view.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fcntl.h>

namespace xpurun::launcher {

namespace {

using nlohmann::json;

constexpr double kOneCoreS = 600;

// The JSON after a keyword of the helper's protocol (docs/stackdump.md); null if there is no such line.
json reported(const std::string& output, std::string_view keyword) {
  for (const std::string_view line : base::split(output, '\n')) {
    if (line.starts_with(keyword) && line.substr(keyword.size()).starts_with(' ')) {
      const json out = model::parse_json(line.substr(keyword.size() + 1));
      return out.is_object() ? out : json();
    }
  }
  return {};
}

base::Result<CoreProcess> read_core(const std::string& program, const StacksTask& task,
                                    const std::string& core, const std::string& out,
                                    base::Progress& progress) {
  std::vector<std::string> argv = {program, "--from-core", core, "--out", out, "--unwinder", task.unwinder};
  for (const auto& [option, value] :
       {std::pair{"--program", &task.program}, std::pair{"--sysroot", &task.sysroot},
        std::pair{"--symbols", &task.symbols}}) {
    if (!value->empty()) {
      argv.insert(argv.end(), {option, *value});
    }
  }
  if (task.locals) {
    argv.emplace_back("--locals");
  }
  // The helper's errors are in its output too.
  const base::UniqueFd silence(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  XPURUN_TRY_ASSIGN(const std::string output, run_resolver(argv, kOneCoreS, silence.get(), progress));
  if (const json error = reported(output, "error"); !error.is_null()) {
    const std::string hint = error.value("hint", "");
    return base::fail({.what = error.value("what", ""),
                       .id = error.value("id", ""),
                       .cause = error.value("cause", ""),
                       .hint = hint.empty() ? fmt::format("ls -l {}", base::shell_quote(core)) : hint});
  }
  const json facts = reported(output, "core");
  if (facts.is_null()) {
    return base::fail({.what = base::cli_text("{} could not be read", base::sanitize(core)),
                       .id = "E-CORE",
                       .cause = base::cli_text(
                           "the reader of the file ended without a result, or reached its time limit")});
  }
  CoreProcess result;
  XPURUN_TRY_ASSIGN(result.stacks, model::load_process_stacks(out));
  result.parent = facts.value("parent", base::Pid{0});
  result.environment = facts.value("environment", result.environment);
  return result;
}

// "pid 123 (python3) died of SIGSEGV (address 0x0) in crash (job.py:12: string_at)"
std::string sentence(const model::ProcessStacks& p) {
  const std::string comm = base::sanitize(p.comm);
  const std::string who = p.rank != base::kNoRank ? fmt::format("rank {} (pid {}, {})", p.rank, p.pid, comm)
                                                  : fmt::format("pid {} ({})", p.pid, comm);
  const std::string how = model::fatal_words(p);
  if (how.empty()) {
    return fmt::format("{} was alive when its core file was written", who);
  }
  const auto crashed =
      std::find_if(p.threads.begin(), p.threads.end(), [](const model::ThreadStack& t) { return t.crashed; });
  if (crashed == p.threads.end()) {
    return fmt::format("{} {}", who, how);
  }
  const model::CodeLocation where = report::place_of(report::without_abort(report::crash_frames(*crashed)));
  return fmt::format("{} {}{}", who, how,
                     where.function.empty() ? std::string() : " in " + report::place(where));
}

}  // namespace

int show_cores(const StacksTask& task) {
  const auto program = stackdump_program();
  if (!program) {
    return complain(program.error(), kExitFailure);
  }
  const auto made = ScratchDirectory::create("xpurun-stacks");
  if (!made) {
    return complain(made.error(), kExitFailure);
  }
  const ScratchDirectory& temporary = **made;
  std::vector<CoreProcess> cores;
  int status = 0;
  {
    base::Progress progress("reading core files", task.cores.size());
    for (size_t i = 0; i < task.cores.size(); ++i) {
      auto core = read_core(*program, task, task.cores[i],
                            fmt::format("{}/{}{}", temporary.path(), i, model::kStacksSuffix), progress);
      progress.advance();
      if (core) {
        cores.push_back(std::move(*core));
      } else {
        status = complain(core.error(), kExitFailure);
      }
    }
  }
  if (cores.empty()) {
    return status;
  }
  identify(cores);
  std::vector<model::ProcessStacks> processes;
  for (CoreProcess& core : cores) {
    report(task, sentence(core.stacks));
    // The text says this itself.
    if (!core.stacks.reason.empty() && task.chosen_format() != report::Format::text) {
      report(task, core.stacks.reason);
    }
    processes.push_back(std::move(core.stacks));
  }
  std::string about =
      processes.size() == 1 ? sentence(processes.front()) : fmt::format("{} core files", processes.size());
  const int shown = show_stacks(report::make_stack_set(std::move(processes), std::move(about), {}), task, "");
  return shown != 0 ? shown : status;
}

}  // namespace xpurun::launcher
