// xpurun record: a profile of live processes by sampling their stacks, with --native also the native ones.
#include "commands/commands.h"
#include "common/base/error_ids.h"
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/stacks/live_dump.h"
#include "launcher/stacks/live_targets.h"
#include "launcher/stacks/recorder.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr const char* kNativeRate = "10";  // a dump takes some hundredths of a second of a CPU

struct RecordTask {
  RecordOrder order;
  model::RankSet compared;
  std::string format;
  std::string out;
  bool quiet = false;
};

std::string text_of(const Settings& settings, std::string_view name) {
  const Setting* s = settings.find(name);
  return s != nullptr ? s->value : std::string(find_option(record_options(), name)->default_text);
}

// "profile.svg" is svg, whatever --format is by default.
std::string format_of(const Settings& settings, const std::string& out) {
  if (!settings.has("format")) {
    for (const auto& [ending, format] : {std::pair{".svg", "svg"},
                                         {".folded", "folded"},
                                         {".profile.json", "json"},
                                         {".json", "speedscope"}}) {
      if (out.ends_with(ending)) {
        return format;
      }
    }
  }
  return text_of(settings, "format");
}

base::Result<model::RankSet> ranks_given(const Settings& settings, std::string_view option) {
  const Setting* given = settings.find(option);
  if (given == nullptr) {
    return model::RankSet();
  }
  const auto parsed = model::RankSet::parse(given->value);
  if (!parsed || parsed->empty()) {
    return base::fail(base::Error{.what = base::cli_text("--{}: '{}' is no list of ranks, such as 2 or 0-3,7",
                                                         option, base::sanitize(given->value)),
                                  .id = "E-USAGE"});
  }
  return *parsed;
}

base::Result<RecordTask> read_task(const Settings& settings) {
  for (const auto& [name, s] : settings.all()) {
    if (const auto checked = check_value(*find_option(record_options(), name), s.value); !checked) {
      return base::fail(base::Error(checked.error()).context("--" + name));
    }
  }
  RecordTask out;
  out.order.seconds = base::parse_duration_s(text_of(settings, "duration")).value_or(0);
  out.order.native = settings.has("native");
  const std::string rate =
      out.order.native && !settings.has("rate") ? kNativeRate : text_of(settings, "rate");
  out.order.rate = static_cast<double>(base::parse_int(rate).value_or(0));
  if (out.order.seconds <= 0 || out.order.rate < 1 || out.order.rate > 1000) {
    return base::fail(base::cli_text("--duration must be longer than 0, and --rate from 1 to 1000"));
  }
  const std::string threads = text_of(settings, "threads");
  out.order.threads = threads == "all"   ? RecordThreads::all
                      : threads == "gil" ? RecordThreads::gil
                                         : RecordThreads::main;
  if (settings.has("reason") && !settings.has("threads")) {
    out.order.threads = RecordThreads::main_and_gil;  // a capture
  }
  out.order.off_cpu = settings.has("off-cpu");
  if (out.order.off_cpu && out.order.native) {
    return base::fail(base::cli_text("--off-cpu and --native exclude each other"));
  }
  XPURUN_TRY_ASSIGN(out.compared, ranks_given(settings, "compare"));
  out.out = text_of(settings, "out");
  out.format = format_of(settings, out.out);
  if (!out.compared.empty() && (out.format == "folded" || out.format == "json")) {
    return base::fail(
        base::cli_text("--compare works with the formats text, svg and speedscope, not {}", out.format));
  }
  out.quiet = settings.has("quiet");
  return out;
}

// `ranks`: only these; empty: all.
base::Result<std::vector<DumpTarget>> targets_of_run(const std::string& word, bool workers,
                                                     const model::RankSet& ranks) {
  XPURUN_TRY_ASSIGN(const model::RunDir dir, model::RunDir::find(word));
  XPURUN_TRY_ASSIGN(const model::RunManifest run, model::load_run_manifest(dir.run_json()));
  std::vector<DumpTarget> out;
  for (const model::ProcessRecord& p : run.processes) {
    const bool worker = workers && p.role == model::ProcessRole::worker && p.rank != base::kNoRank;
    const bool wanted = ranks.empty() || ranks.contains(p.rank);
    if (wanted && (worker || p.role == model::ProcessRole::rank) && !p.death.happened) {
      out.push_back({.pid = p.pid, .rank = p.rank, .local_rank = p.local_rank, .role = p.role});
    }
  }
  if (run.outcome != model::RunOutcome::running || out.empty()) {
    return base::fail(
        base::Error{.what = base::cli_text("no rank of {} is alive", base::sanitize(dir.path())),
                    .id = "E-NO-PROCESS",
                    .hint = "xpurun runs"});
  }
  return out;
}

base::Result<std::vector<DumpTarget>> targets_of(const Settings& settings) {
  if (const Setting* run = settings.find("run")) {
    XPURUN_TRY_ASSIGN(const model::RankSet ranks, ranks_given(settings, "ranks"));
    return targets_of_run(run->value, settings.has("workers"), ranks);
  }
  const Setting* words = settings.find("pid");
  if (words == nullptr) {
    return base::fail(base::Error{.what = base::cli_text("nothing to record: give --run DIR or --pid PID"),
                                  .id = base::kUsage,
                                  .hint = "xpurun help record"});
  }
  auto parsed = parse_pids(words->value);
  if (!parsed) {
    return base::fail(base::Error{.what = "--pid: " + parsed.error().what, .id = base::kUsage});
  }
  std::vector<base::Pid> pids = std::move(*parsed);
  const base::ProcFs proc;
  if (settings.has("children")) {
    pids = with_descendants(proc, pids, ::getpid());
  }
  return identify_targets(proc, pids);
}

std::string written(const report::Profile& profile, const RecordTask& task) {
  if (task.format == "folded") {
    return report::profile_folded(profile);
  }
  if (task.format == "speedscope") {
    return report::profile_speedscope(profile, task.compared);
  }
  if (task.format == "json") {
    return report::profile_json(profile);
  }
  if (task.format == "svg") {
    return report::profile_svg(profile, task.compared);
  }
  return report::profile_text(profile, task.compared, base::terminal_columns(STDOUT_FILENO));
}

}  // namespace

int record_command(const Invocation& call) {
  const Settings& settings = call.words.settings;
  if (!call.words.operands.empty()) {
    return complain_usage(call, base::cli_text("unknown option '{}'; use --pid for processes",
                                               base::sanitize(call.words.operands.front())));
  }
  const auto task = read_task(settings);
  if (!task) {
    return complain_usage(call, task.error().what);
  }
  const auto targets = targets_of(settings);
  if (!targets) {
    return complain(targets.error(),
                    targets.error().id == base::kUsage ? call.command.usage_status : kExitFailure);
  }
  auto profile = record(*targets, task->order);
  if (!profile) {
    return complain(profile.error(), kExitFailure);
  }
  profile->host = base::host_name();
  if (const Setting* reason = settings.find("reason")) {
    profile->reason = reason->value;
  }
  profile->about = settings.has("run") ? settings.find("run")->value : "pid " + settings.find("pid")->value;
  for (const std::string& note : profile->notes) {
    if (!task->quiet) {
      base::write_stderr(fmt::format("xpurun: note: {}\n", base::sanitize(note)));
    }
  }
  if (const auto missing = task->compared.minus(profile->ranks()); !missing.empty()) {
    return complain({.what = base::cli_text("--compare: rank {} was not recorded", missing.text())},
                    kExitFailure);
  }
  const std::string text = written(*profile, *task);
  if (task->out.empty()) {
    return print(text);
  }
  const auto saved = base::write_file_atomic(task->out, text);
  return saved ? 0 : complain(saved.error(), kExitFailure);
}

}  // namespace xpurun::launcher
