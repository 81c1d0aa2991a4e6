// xpurun memory: who holds the memory of each rank of a run, or of a snapshot of PyTorch.
#include "commands/analyze/table_text.h"
#include "commands/commands.h"
#include "commands/run_paths.h"
#include "common/base/error_ids.h"
#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/evidence/machine.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/text_block.h"
#include "report/diagnosis/memory/memory_users_words.h"
#include "report/memory/look_files.h"
#include "report/memory/memory_report.h"
#include "report/memory/torch_snapshot.h"
#include "report/nodes/job_runs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

namespace fs = std::filesystem;

constexpr double kLookLimitS = 60;
constexpr double kReplyS = 20;  // for the answer, in addition
constexpr size_t kWidestMemory = 200;
constexpr std::string_view kRunVariable = "XPURUN_RUN";

struct MemoryTask {
  std::vector<std::string> operands;
  model::RankSet ranks;
  model::RankSet compared;
  std::optional<model::LookReason> why;
  int64_t steps = 0;
  size_t top = 0;
};

std::string memory_value(const Settings& settings, std::string_view name) {
  const Setting* s = settings.find(name);
  return s != nullptr ? s->value : std::string(find_option(memory_options(), name)->default_text);
}

base::Result<model::RankSet> memory_ranks(const Settings& settings, std::string_view name) {
  const Setting* given = settings.find(name);
  if (given == nullptr) {
    return model::RankSet();
  }
  auto ranks = model::RankSet::parse(given->value);
  if (!ranks || ranks->empty()) {
    return base::fail(base::cli_text("--{}: '{}' is no list of ranks, such as 2 or 0-3,7", name,
                                     base::sanitize(given->value)));
  }
  return *ranks;
}

// "XPURUN_RUN=1:<supervisor>:<...>:<run directory>/notice.sock" in the environment of a rank.
base::Result<std::string> run_of_process(const std::string& word) {
  const auto pid = base::parse_int(word);
  const auto environment = base::ProcFs().environ(static_cast<base::Pid>(pid.value_or(0)));
  const auto found = environment.find(std::string(kRunVariable));
  if (!pid || found == environment.end()) {
    return base::fail(base::Error{.what = base::cli_text("pid {} is no process of a job under xpurun, or of "
                                                         "another user",
                                                         base::sanitize(word)),
                                  .id = "E-NO-PROCESS",
                                  .hint = "xpurun runs"});
  }
  return fs::path(found->second.substr(found->second.rfind(':') + 1)).parent_path().string();
}

base::Result<MemoryTask> read_memory_task(const Invocation& call) {
  const Settings& settings = call.words.settings;
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(memory_options(), name), s.value); !checked) {
      return base::fail(base::Error(checked.error()).context("--" + name));
    }
  }
  MemoryTask out{.operands = call.words.operands};
  XPURUN_TRY_ASSIGN(out.ranks, memory_ranks(settings, "ranks"));
  XPURUN_TRY_ASSIGN(out.compared, memory_ranks(settings, "compare"));
  out.why = model::from_name<model::LookReason>(memory_value(settings, "moment"));
  out.steps = base::parse_int(memory_value(settings, "steps")).value_or(0);
  out.top =
      static_cast<size_t>(std::max<int64_t>(base::parse_int(memory_value(settings, "top")).value_or(0), 1));
  if (settings.has("compare") && !settings.has("flame")) {
    return base::fail(base::cli_text("--compare needs --flame FILE"));
  }
  if (settings.has("pid") && !out.operands.empty()) {
    return base::fail(base::cli_text("--pid names the run, so DIR cannot be given too"));
  }
  return out;
}

// The answer says which ranks could not be asked.
base::Result<std::string> ask_for_looks(const std::string& directory, const MemoryTask& task, bool objects) {
  const model::RunDir dir(directory);
  XPURUN_TRY_ASSIGN(const model::RunManifest run, model::load_run_manifest(dir.run_json()));
  if (run.outcome != model::RunOutcome::running) {
    return base::fail(
        base::Error{.what = base::cli_text("the run in {} has ended", base::sanitize(dir.path())),
                    .id = "E-CONTROL",
                    .hint = "xpurun runs"});
  }
  const nlohmann::ordered_json request = {
      {"cmd", "memory"}, {"steps", task.steps}, {"objects", objects}, {"timeout_s", kLookLimitS}};
  XPURUN_TRY_ASSIGN(const std::string reply,
                    ControlClient(run.control).ask(model::json_text(request), kLookLimitS + kReplyS));
  const auto j = model::parse_json(reply);
  std::string notes;
  for (const auto& [key, why] :
       {std::pair("silent", base::cli_text("made no look within {}: no step ended", "60s")),
        std::pair("unreachable", base::cli_text("cannot be asked: no stage of torch was seen"))}) {
    const std::string ranks =
        j.is_object() && j.contains(key) && j[key].is_string() ? j[key].get<std::string>() : "";
    if (!ranks.empty()) {
      notes += fmt::format("ranks {}: {}\n", base::sanitize(ranks), why);
    }
  }
  return notes;
}

// Run directories with those of their nodes, and snapshots.
report::LookFiles read_memory(const std::vector<std::string>& operands) {
  report::LookFiles out;
  std::vector<std::string> directories;
  for (const std::string& operand : operands) {
    std::error_code ec;
    if (fs::is_directory(operand, ec)) {
      const auto job = report::read_job(model::RunDir(operand));
      for (const report::NodeRun& node : job ? job->nodes : std::vector<report::NodeRun>()) {
        if (!node.path.empty()) {
          directories.push_back(node.path);
        }
      }
      continue;
    }
    constexpr size_t kLargestSnapshot = size_t{4} << 30;
    const auto text = base::read_regular_file(operand, kLargestSnapshot);
    auto look = text ? report::read_torch_snapshot(*text) : base::fail(text.error());
    if (look) {
      look->rank = operands.size() > 1 ? static_cast<base::Rank>(out.looks.size()) : base::kNoRank;
      out.looks.push_back(std::move(*look));
    } else {
      out.notes.push_back(base::to_line(base::Error(look.error()).context(operand)));
    }
  }
  report::LookFiles runs = report::read_looks(directories);
  std::move(runs.looks.begin(), runs.looks.end(), std::back_inserter(out.looks));
  std::move(runs.notes.begin(), runs.notes.end(), std::back_inserter(out.notes));
  return out;
}

// Who had the memory of the ranks' control groups when they were fullest: processes, shared memory, files.
std::vector<std::string> users_of(const std::vector<std::string>& operands) {
  std::vector<std::string> out;
  for (const std::string& operand : operands) {
    const auto machine = model::load_machine_history(model::RunDir(operand).file(model::kMachineFile));
    for (const model::MemoryUsers& users : machine ? machine->memory : std::vector<model::MemoryUsers>()) {
      for (std::string& line : report::users_words(users, report::UsersMoment::fullest)) {
        out.push_back(std::move(line));
      }
    }
  }
  return out;
}

std::string people_text(const report::MemoryReport& memory, const std::vector<std::string>& users, size_t top,
                        size_t columns) {
  std::string out;
  for (const std::string& line : users) {
    out += text_block(line, columns, 0);
  }
  for (const std::string& line : report::look_lines(memory)) {
    out += text_block(line, columns, 0);
  }
  for (const report::TextTable& table : report::memory_tables(memory, top)) {
    out += '\n' + table_text(table, columns);
  }
  return out;
}

}  // namespace

int memory_command(const Invocation& call) {
  auto task = read_memory_task(call);
  if (!task) {
    return complain_usage(call, task.error().what);
  }
  const Settings& settings = call.words.settings;
  base::Pid pid = 0;
  if (const Setting* process = settings.find("pid")) {
    auto directory = run_of_process(process->value);
    if (!directory) {
      return complain(directory.error(), kExitFailure);
    }
    pid = static_cast<base::Pid>(base::parse_int(process->value).value_or(0));
    task->operands = {std::move(*directory)};
  }
  const auto operands = run_paths(task->operands);
  if (!operands) {
    return complain(operands.error(), kExitFailure);
  }
  if (settings.has("now")) {
    const auto asked = ask_for_looks(operands->front(), *task, settings.has("objects"));
    if (!asked) {
      return complain(asked.error(), kExitFailure);
    }
    base::write_stderr(*asked);
  }
  const base::Speaking speaking(settings.has("json") ? base::Language::english : base::command_language());
  report::LookFiles files = read_memory(*operands);
  for (const std::string& note : files.notes) {
    (void)complain(base::Error{.what = note}, kExitFailure);
  }
  std::erase_if(files.looks, [&](const model::MemoryLook& look) {
    return (!task->ranks.empty() && !task->ranks.contains(look.rank)) || (pid != 0 && look.pid != pid);
  });
  const report::MemoryReport memory = report::memory_report(files.looks, task->why);
  const std::vector<std::string> users = users_of(*operands);
  if (memory.looks.empty() && (users.empty() || settings.has("json"))) {
    const auto run = model::load_run_manifest(model::RunDir(operands->front()).run_json());
    const bool lost = run && !model::ranks_without_preload(*run).empty();
    return complain(
        base::Error{.what = base::cli_text("no rank has looked at its memory"),
                    .id = "E-NO-DATA",
                    .cause = lost ? base::cli_text("the ranks ran without xpurun's library: a script "
                                                   "of the job has replaced LD_PRELOAD")
                                  : base::cli_text(
                                        "ranks that train with PyTorch look at it from the second step on, "
                                        "not with --no-python-hooks or --timing off"),
                    .hint = "while the job runs: xpurun memory --now"},
        kExitFailure);
  }
  const int status = files.notes.empty() ? 0 : kExitFailure;
  if (const Setting* flame = settings.find("flame")) {
    const auto written = base::write_file_atomic(
        flame->value, report::profile_svg(report::memory_profile(memory), task->compared));
    return written ? status : complain(written.error(), kExitFailure);
  }
  const int printed = print(
      settings.has("json") ? report::memory_json(memory) + "\n"
                           : people_text(memory, users, task->top,
                                         std::min(base::terminal_columns(STDOUT_FILENO), kWidestMemory)));
  return status != 0 ? status : printed;
}

}  // namespace xpurun::launcher
